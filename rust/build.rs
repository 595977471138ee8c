// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Where liblodic.so is: LODIC_LIB_DIR, or what pkg-config says.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LODIC_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-link-lib=dylib=lodic");
    if let Ok(folder) = env::var("LODIC_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", folder);
        return;
    }
    let asked = Command::new("pkg-config").args(["--variable=libdir", "lodic"]).output();
    if let Ok(answer) = asked {
        let folder = String::from_utf8_lossy(&answer.stdout);
        if answer.status.success() && !folder.trim().is_empty() {
            println!("cargo:rustc-link-search=native={}", folder.trim());
        }
    }
}
