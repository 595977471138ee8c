# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""nginx as it must be set up for `lodic run`, for the tests and for the measurements."""

import os

NGINX = "/usr/sbin/nginx"
# sendfile shows its bytes to nobody, and a file that is not kept open is read once.
CONFIGURATION = """
daemon off; worker_processes {workers}; pid "{folder}/pid"; error_log "{folder}/errors"; {user}
events {{ worker_connections 128; }}
http {{
  access_log off; sendfile off; output_buffers 1 64k; keepalive_requests 1000000000;
  {keeps}
  client_body_temp_path "{folder}/t1"; proxy_temp_path "{folder}/t2";
  fastcgi_temp_path "{folder}/t3"; uwsgi_temp_path "{folder}/t4"; scgi_temp_path "{folder}/t5";
  server {{ listen {listen}; root "{root}"; }}
}}
"""


KEEPS = "open_file_cache max=2000 inactive=600s; open_file_cache_valid {valid};"


def command(folder, listen, root, workers=1, valid="60s", keeps=True, user="root"):
    """The words that start it. It keeps what it needs in folder, and answers at listen. It looks
    for a new version of a file after valid; if it keeps none open, for each request. Its workers
    run as the user who starts it; if that is root, as user."""
    (folder / "conf").write_text(CONFIGURATION.format(
        folder=folder, listen=listen, root=root, workers=workers,
        keeps=KEEPS.format(valid=valid) if keeps else "",
        user=f"user {user};" if os.getuid() == 0 else ""))
    return [NGINX, "-c", str(folder / "conf")]
