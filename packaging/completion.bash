# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The part of lodic's completion that knows nothing of its commands. packaging/completion.py puts
# the tables behind it: what each command takes. A key is a command's words, as "lodic bench pin".
declare -gA _lodic_commands _lodic_options _lodic_values _lodic_arguments

# Takes the lines of the words that begin with cur.
_lodic_reply()
{
	mapfile -t COMPREPLY < <(compgen "$@" -- "$cur")
}

# The value of an option. $1: its kind, as the tables have it.
_lodic_value()
{
	case $1 in
	file)
		compopt -o filenames 2>/dev/null
		_lodic_reply -f
		;;
	folder)
		compopt -o filenames 2>/dev/null
		_lodic_reply -d
		;;
	user) _lodic_reply -u ;;
	group) _lodic_reply -g ;;
	words:*) _lodic_reply -W "${1#words:}" ;;
	esac
}

# The command line of the program that begins at word $1.
_lodic_program()
{
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [ "$COMP_CWORD" = "$1" ]; then
		_lodic_reply -c
	else
		compopt -o filenames 2>/dev/null
		_lodic_reply -f
	fi
}

# Options and commands that may stand here.
_lodic_words()
{
	if [[ $cur == -* ]]; then
		_lodic_reply -W "${_lodic_options[$command]}"
		if [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY == *= ]]; then
			compopt -o nospace 2>/dev/null
		fi
	elif [ -n "${_lodic_commands[$command]}" ]; then
		_lodic_reply -W "${_lodic_commands[$command]}"
	else
		_lodic_value "${_lodic_arguments[$command]}"
	fi
}

_lodic()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[0]##*/} option= before= i word
	local arguments=${_lodic_arguments[$command]}
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [ "$word" = = ]; then
			option=$before
		elif [[ -n $option || $before == = ]]; then
			option=
		elif [[ $word == -- || $word != -* && $arguments == program ]]; then
			[ "$word" != -- ] || i=$((i + 1))
			[ "$arguments" != program ] || _lodic_program $i
			return
		elif [[ $word == -* && ${_lodic_values[$command $word]} == [a-z]* ]]; then
			option=$word
		elif [[ " ${_lodic_commands[$command]} " == *" $word "* && $word != help ]]; then
			command+=" $word"
			arguments=${_lodic_arguments[$command]}
		fi
		before=$word
	done
	# The shell splits words at '=', as long as COMP_WORDBREAKS has it.
	if [[ $cur == = && ${COMP_WORDS[COMP_CWORD - 1]} == -* ]]; then
		option=${COMP_WORDS[COMP_CWORD - 1]}
		cur=
	fi
	if [ -n "$option" ]; then
		word=${_lodic_values[$command $option]}
		_lodic_value "${word#=}"
	elif [[ $cur == --*=* ]]; then
		option=${cur%%=*}
		cur=${cur#*=}
		word=${_lodic_values[$command $option]}
		_lodic_value "${word#=}"
		COMPREPLY=("${COMPREPLY[@]/#/$option=}")
	elif [[ $cur != -* && $arguments == program ]]; then
		_lodic_program "$COMP_CWORD"
	else
		_lodic_words
	fi
}
