# The phases of nixpkgs' stdenv that this project relies on, and the setup hooks of makeWrapper and installShellFiles as functions.
set -eu -o pipefail
export PATH=/rust/bin:/usr/bin HOME=$NIX_BUILD_TOP SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} LC_ALL=C.UTF-8 TZ=UTC
umask 022
for input in ${nativeBuildInputs:-}; do PATH=$input/bin:$PATH; done

runHook() { if [ -n "${!1:-}" ]; then eval "${!1}"; elif declare -F "$1" >/dev/null; then "$1"; fi; }

unpackPhase() {
  if [ -d "$src" ]; then cp -r "$src" source; chmod -R u+w source; cd source; else tar xf "$src"; cd */; fi
}

makeWrapper() { # PROGRAM WRAPPER [--set|--set-default NAME VALUE | --prefix NAME SEPARATOR VALUE | --add-flags FLAGS]...
  local program=$1 wrapper=$2 flags=
  shift 2
  {
    echo '#!/bin/bash'
    while [ $# -gt 0 ]; do
      case $1 in
        --set) printf 'export %s=%q\n' "$2" "$3"; shift 3 ;;
        --set-default) printf 'export %s=${%s-%q}\n' "$2" "$2" "$3"; shift 3 ;;
        --prefix) printf 'export %s=%q${%s:+%s$%s}\n' "$2" "$4" "$2" "$3" "$2"; shift 4 ;;
        --add-flags) flags=$2; shift 2 ;;
        *) echo "makeWrapper: no option $1" >&2; return 1 ;;
      esac
    done
    printf 'exec -a "$0" %q %s "$@"\n' "$program" "$flags"
  } >"$wrapper"
  chmod +x "$wrapper"
}

wrapProgram() { # PROGRAM OPTIONS...
  local program=$1 hidden
  hidden=$(dirname "$1")/.$(basename "$1")-wrapped
  mv "$program" "$hidden"
  shift
  makeWrapper "$hidden" "$program" "$@"
}

installManPage() {
  local page
  for page in "$@"; do install -Dm644 -t "$out/share/man/man${page##*.}" "$page"; done
}

installShellCompletion() { # --cmd NAME --bash FILE --zsh FILE --fish FILE
  local name=
  while [ $# -gt 0 ]; do
    case $1 in
      --cmd) name=$2 ;;
      --bash) mkdir -p "$out/share/bash-completion/completions"; cat "$2" >"$out/share/bash-completion/completions/$name.bash" ;;
      --zsh) mkdir -p "$out/share/zsh/site-functions"; cat "$2" >"$out/share/zsh/site-functions/_$name" ;;
      --fish) mkdir -p "$out/share/fish/vendor_completions.d"; cat "$2" >"$out/share/fish/vendor_completions.d/$name.fish" ;;
      *) echo "installShellCompletion: no option $1" >&2; return 1 ;;
    esac
    shift 2
  done
}

if [ -n "${buildCommandPath:-}" ]; then . "$buildCommandPath"; exit 0; fi
if [ -n "${buildCommand:-}" ]; then eval "$buildCommand"; exit 0; fi
for phase in unpackPhase patchPhase configurePhase buildPhase checkPhase installPhase fixupPhase; do
  if [ "$phase" = checkPhase ] && [ -z "${doCheck:-}" ]; then continue; fi
  runHook "$phase"
done
