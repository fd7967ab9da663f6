#!/bin/sh
# A connector in a shell: what it does after open is chosen by the variable MODE, or else by "mode" in its configuration.
read -r request
case $request in
'{"spec"'*)
  echo '{"spec":{"protocol":3032023,"configSchema":{},"resourceConfigSchema":{},"documentationUrl":"https://example.test","resourcePathPointers":["/schema","/table"]}}'
  exit ;;
'{"discover"'*)
  echo '{"discovered":{"bindings":[{"recommendedName":"public/t","resourceConfig":{"schema":"public","table":"t"},"key":["/id"],"documentSchema":{"type":"object","additionalProperties":false,"properties":{"_meta":{"type":"object"},"id":{"type":"integer"},"text":{"type":"string"}}}}]}}'
  exit ;;
'{"validate"'*) echo '{"validated":{"bindings":[{"resourcePath":["public","t"]}]}}'; exit ;;
'{"apply"'*) echo '{"applied":{}}'; exit ;;
esac

rows() {
  seq "$1" "$2" | sed 's/.*/{"captured":{"binding":0,"doc":{"_meta":{"op":"c"},"id":&,"text":"abcdefghijklmnopqrstuvwxyz012345"}}}/'
}
mode=${MODE:-$(printf %s "$request" | sed -n 's/.*"mode":"\([a-z]*\)".*/\1/p')}
case $mode in
flood) rows 1 500000 ;;
mixed)
  for i in $(seq 2000); do
    echo "out $i"
    echo "err $i" >&2
  done ;;
whoami)
  id -u
  touch /written 2>/dev/null && echo writable || echo read-only
  touch /tmp/written && echo temporary
  echo "$TIDEMARK_STOP_WHEN_CAUGHT_UP $FLOW_RUNTIME_CODEC" ;;
wait) cat >/dev/null ;;
echo) cat ;;
stubborn) trap '' TERM; while true; do sleep 1; done ;;
stream)
  # Ten thousand rows a checkpoint, on from the state's cursor.
  cursor=$(printf %s "$request" | sed -n 's/.*"state":{"cursor":\([0-9]*\)}.*/\1/p')
  echo '{"opened":{"explicitAcknowledgements":true}}'
  cursor=${cursor:-0}
  while [ "$cursor" -lt 300000 ]; do
    rows $((cursor + 1)) $((cursor + 10000))
    cursor=$((cursor + 10000))
    echo "{\"checkpoint\":{\"state\":{\"updated\":{\"cursor\":$cursor},\"mergePatch\":true}}}"
  done ;;
esac
