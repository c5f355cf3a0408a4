"""The completion scripts. Each asks `phalanx __complete` with the words so far, and shows what it prints.

An answer has a line for each candidate: the word, a tab, its description. The line `:files` asks for names of
files as well.
"""

from typing import Final

BASH: Final = """\
# bash completion for phalanx: source <(phalanx completion bash)
_phalanx() {
    local cur words cword
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur words cword
    else
        cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    local line
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <("${words[0]}" __complete "${words[@]:1:cword}" 2>/dev/null)
}
complete -F _phalanx phalanx
"""

ZSH: Final = """\
#compdef phalanx
# zsh completion for phalanx: source <(phalanx completion zsh)
_phalanx() {
    local line word text
    local -a found
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            _files
        elif [[ -n $line ]]; then
            word=${line%%$'\\t'*} text=${line#*$'\\t'}
            found+=("${word//:/\\\\:}:$text")
        fi
    done
    (( $#found )) && _describe phalanx found
}
compdef _phalanx phalanx
"""

FISH: Final = """\
# fish completion for phalanx: phalanx completion fish | source
function __phalanx_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c phalanx -f -a '(__phalanx_complete)'
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
