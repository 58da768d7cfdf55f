#!/usr/bin/env bash
# Checks one node and its terminal the way a runbook does it by hand: one tool after the other, dig and getent, curl,
# openssl, ssh. It is the other side of the benchmark, and an oracle for the tool: the same hops by the same names.
#
# One JSON line per hop: {"hop","status","detail"}; status is pass, fail, or skip (not run, or could not be decided).
# Exit status: 0 no hop failed, 3 a hop failed, 2 usage.
#
# Secrets are read from files and handed to children in files of a private folder, never as arguments.
set -uo pipefail
export LC_ALL=C

usage() {
  cat <<'U'
usage: helper.sh --api-base URL --terminal-base URL --node-id ID --node-host HOST --node-user NAME
  --allocation-id ID --token-file FILE --ca FILE --identity FILE --known-hosts FILE
  [--api-resolve-address IP] [--terminal-resolve-address IP] [--app-resolve-address IP]
  [--node-runtime-api-url URL] [--node-runtime-resolve-address IP]
  [--node-terminal-url URL] [--node-terminal-resolve-address IP]
  [--agent-unit UNIT] [--agent-dir DIR] [--agent-env-file FILE] [--agent-record DIR]
  [--stale-after SECONDS] [--disk-pressure PERCENT] [--stream-timeout SECONDS] [--run-ws-smoke true|false]
  [--controlmaster]      one shared SSH connection in place of one per check
U
}

api_base='' terminal_base='' node_id='' node_host='' node_user='' allocation_id='' token_file='' ca='' identity='' known_hosts=''
api_resolve_address='' terminal_resolve_address='' app_resolve_address='' node_runtime_api_url='' node_terminal_url=''
node_runtime_resolve_address='' node_terminal_resolve_address=''
agent_unit=gpuaas-node-agent.service agent_dir=/etc/gpuaas agent_env_file=/etc/gpuaas/agent.env agent_record=/var/lib/gpuaas/diag
stale_after=90 disk_pressure=90 stream_timeout=10 run_ws_smoke=true controlmaster=''

while [ $# -gt 0 ]; do
  case $1 in
  -h | --help) usage && exit 0 ;;
  --controlmaster) controlmaster=yes && shift && continue ;;
  --*) [ $# -ge 2 ] || { echo "helper.sh: $1 wants a value" >&2 && exit 2; } ;;
  *) echo "helper.sh: what is $1?" >&2 && exit 2 ;;
  esac
  case ${1#--} in
  api-base) api_base=${2%/} ;;
  terminal-base) terminal_base=${2%/} ;;
  node-id) node_id=$2 ;;
  node-host) node_host=$2 ;;
  node-user) node_user=$2 ;;
  allocation-id) allocation_id=$2 ;;
  token-file) token_file=$2 ;;
  ca) ca=$2 ;;
  identity) identity=$2 ;;
  known-hosts) known_hosts=$2 ;;
  api-resolve-address) api_resolve_address=$2 ;;
  terminal-resolve-address) terminal_resolve_address=$2 ;;
  app-resolve-address) app_resolve_address=$2 ;;
  node-runtime-api-url) node_runtime_api_url=${2%/} ;;
  node-runtime-resolve-address) node_runtime_resolve_address=$2 ;;
  node-terminal-url) node_terminal_url=${2%/} ;;
  node-terminal-resolve-address) node_terminal_resolve_address=$2 ;;
  agent-unit) agent_unit=$2 ;;
  agent-dir) agent_dir=${2%/} ;;
  agent-env-file) agent_env_file=$2 ;;
  agent-record) agent_record=$2 ;;
  stale-after) stale_after=$2 ;;
  disk-pressure) disk_pressure=$2 ;;
  stream-timeout) stream_timeout=$2 ;;
  run-ws-smoke) run_ws_smoke=$2 ;;
  *) echo "helper.sh: no such option: $1" >&2 && exit 2 ;;
  esac
  shift 2
done
for need in api_base terminal_base node_id node_host node_user allocation_id token_file ca identity known_hosts; do
  [ -n "${!need}" ] || { echo "helper.sh: --${need//_/-} is missing" >&2 && exit 2; }
done
for tool in curl jq openssl ssh getent; do
  command -v "$tool" >/dev/null || { echo "helper.sh: needs $tool" >&2 && exit 2; }
done

umask 077
work=$(mktemp -d) || exit 2
socket=$work/ssh
# shellcheck disable=SC2317 # the trap calls it
leave() {
  [ -n "$controlmaster" ] && [ -S "$socket" ] && ssh -F none -o ControlPath="$socket" -O exit "$node_host" 2>/dev/null
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

# --- what is said ---

failed=0
declare -A status=()

# say HOP STATUS DETAIL
say() {
  local text=${3//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//[[:cntrl:]]/ }
  status[$1]=$2
  [ "$2" = fail ] && failed=1
  printf '{"hop":"%s","status":"%s","detail":"%s"}\n' "$1" "$2" "$text"
}

# without HOP NEED...: says skip, and succeeds, when a hop it needs did not pass.
without() {
  local hop=$1 need
  shift
  for need in "$@"; do
    if [ "${status[$need]:-skip}" != pass ]; then
      say "$hop" skip "needs $need"
      return 0
    fi
  done
  return 1
}

# --- the operator's side ---

correlation=$(cat /proc/sys/kernel/random/uuid)
printf 'X-Correlation-Id: %s\nX-GPUaaS-Probe: preflight\n' "$correlation" >"$work/plain"
printf 'Authorization: Bearer %s\n' "$(<"$token_file")" | cat "$work/plain" - >"$work/auth" || exit 2

# pin URL ADDRESS: the arguments that make curl go there; without an address the name is looked up, as dig would say.
pin() {
  local rest=${1#*://} host port
  rest=${rest%%/*}
  host=${rest%%:*} port=${rest##*:}
  [ "$port" = "$rest" ] && port=443
  pinned=()
  if [ -n "$2" ]; then
    pinned=(--resolve "$host:$port:$2")
  elif ! { dig +short +time=2 +tries=1 "$host" 2>/dev/null | grep -q .; } && ! getent hosts "$host" >/dev/null; then
    return 1
  fi
}

# ask URL ADDRESS [curl arguments]: sets code (000: no answer) and why; the body is in $work/body.
ask() {
  local url=$1 address=$2 said
  shift 2
  : >"$work/body"
  if ! pin "$url" "$address"; then
    code=000 why="the name of $url cannot be resolved"
    return
  fi
  said=$(curl -s -m 4 --http1.1 --curves X25519:P-256 --cacert "$ca" "${pinned[@]}" -o "$work/body" -w '%{http_code} %{errormsg}' "$@" "$url" 2>/dev/null)
  code=${said%% *} why=${said#* }
}

api() { ask "$api_base$1" "$api_resolve_address" -H @"$work/auth" "${@:2}"; }

# field FILTER: of the last answer; "" when it is absent.
field() { jq -r "$1 // \"\"" "$work/body" 2>/dev/null; }

# --- the node's side ---

ssh_options=(-F none -T -o BatchMode=yes -o ConnectTimeout=10 -o IdentitiesOnly=yes -i "$identity"
  -o "UserKnownHostsFile=$known_hosts" -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes
  -o KexAlgorithms=curve25519-sha256 -o HostKeyAlgorithms=ssh-ed25519 -o PubkeyAcceptedAlgorithms=ssh-ed25519
  -l "$node_user")
[ -n "$controlmaster" ] && ssh_options+=(-o ControlMaster=auto -o ControlPersist=60 -o "ControlPath=$socket")

# quote WORD for a POSIX shell.
quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# Every check on the node begins with this: where its running agent is, and what it was told.
# shellcheck disable=SC2016 # expanded on the node
printf -v preface 'u=%s d=%s r=%s f=%s; p=$(systemctl show -P MainPID "$u"); e=/proc/${p:-0}/environ\n' \
  "$(quote "$agent_unit")" "$(quote "$agent_dir")" "$(quote "$agent_record")" "$(quote "$agent_env_file")"
# shellcheck disable=SC2016 # expanded on the node
preface+='of() {
  v=$({ tr "\0" "\n" <"$e" | sed -n "s/^$1=//p" | tail -n 1; } 2>/dev/null)
  [ -n "$v" ] || v=$(sed -n "s/^$1=//p" "$f" | tail -n 1) # no agent, or one that is just starting or ending
  echo "$v"
}
'

# node SCRIPT: runs it as root on the node by sh; stdout is its answer.
# shellcheck disable=SC2029 # quoted for both shells on the way
node() {
  local sudo='sudo -n '
  [ "$node_user" = root ] && sudo=''
  ssh "${ssh_options[@]}" "$node_host" "${sudo}sh -c $(quote "$preface$1")" 2>>"$work/ssh.err"
}

# --- the hops ---

control_plane_access() {
  ask "$api_base/healthz" "$api_resolve_address" -H @"$work/plain"
  case $code in
  2??) ;;
  *) say control_plane_access fail "healthz: HTTP $code $why" && return ;;
  esac
  api /v1/admin/trust
  signing=$(field .signing_ca) ingress=$(field .ingress_ca)
  case $code in
  2?? | 404) say control_plane_access pass "healthz and token" ;;
  *) say control_plane_access fail "the operator's request: HTTP $code $why" ;;
  esac
}

allocation_binding() {
  without allocation_binding control_plane_access && return
  api "/v1/allocations/$allocation_id"
  local state bound
  { read -r state && read -r bound && read -r os_user && read -r app_unit && read -r app_port && read -r product_url; } < <(
    jq -r '.state // "", .node_id // "", .os_user // "", .app.unit // "", .app.port // "", .app.product_url // ""' "$work/body" 2>/dev/null
  )
  case $code:$state in
  404:*) say allocation_binding fail "the platform knows no allocation $allocation_id" ;;
  2??:) say allocation_binding skip "the answer has no state" ;;
  2??:active)
    if [ -n "$bound" ] && [ "$bound" != "$node_id" ]; then
      say allocation_binding fail "it is on $bound"
    else
      say allocation_binding pass "active on $bound"
    fi
    ;;
  2??:*) say allocation_binding fail "it is $state" ;;
  *) say allocation_binding skip "undecided: HTTP $code $why" ;;
  esac
}

node_heartbeat() {
  without node_heartbeat control_plane_access && return
  api "/v1/admin/nodes/$node_id"
  local age
  { read -r age && read -r stale_tasks; } < <(jq -r '
    def ms: if . == null then null else (capture("^(?<s>[^.Z]+)(\\.(?<f>[0-9]{1,3}))?") | (.s + "Z" | fromdate) * 1000 + ((.f // "0") | tonumber)) end;
    (.now | ms) as $now | (.agent.last_seen_at | ms) as $seen | if $seen == null then "never" else $now - $seen end, .stale_tasks // 0
  ' "$work/body" 2>/dev/null)
  case $code:$age in
  2??:never) say node_heartbeat fail "the platform has never heard of the agent" ;;
  2??:[0-9-]*)
    if [ "$age" -gt $((stale_after * 1000)) ]; then
      say node_heartbeat fail "last heartbeat $age ms ago"
    else
      say node_heartbeat pass "last heartbeat $age ms ago"
    fi
    ;;
  *) say node_heartbeat skip "undecided: HTTP $code $why" ;;
  esac
}

node_ops_access() {
  if node true; then
    say node_ops_access pass "logged in"
  else
    say node_ops_access fail "ssh: $(tail -n 1 "$work/ssh.err")"
  fi
}

# shellcheck disable=SC2016 # every script below is expanded on the node
node_readiness() {
  without node_readiness node_ops_access && return
  local disk process binary clock before skew why=''
  disk=$(node '
    while [ ! -d "$r" ] && [ "$r" != / ]; do r=$(dirname "$r"); done
    used=$(df -P "$r" | sed -n "2s/.* \([0-9]*\)%.*/\1/p")
    f=$r/.preflight.$$
    if dd if=/dev/zero of="$f" bs=8192 count=1 conv=fsync 2>/dev/null && [ "$(stat -c %s "$f")" = 8192 ]; then w=written; else w=full; fi
    rm -f "$f"
    echo "$w $used"')
  process=$(node 'echo "$(systemctl is-active "$u") $(sed -n "s/^State:[[:space:]]*\(.\).*/\1/p" "/proc/$p/status" 2>/dev/null)"')
  binary=$(node 'b=$(systemctl show -P ExecStart "$u" | sed -n "s/.*path=\([^ ;]*\).*/\1/p"); "$b" version >/dev/null 2>&1 && echo runs || echo "$b: status $?"')
  before=$EPOCHREALTIME
  clock=$(node 'date +%s.%N')
  case $disk in
  written\ *) [ "${disk#* }" -gt "$disk_pressure" ] && why="${disk#* }% of the disk is used" ;;
  full\ *) why="8 KiB cannot be written at $agent_record" ;;
  *) say node_readiness skip "undecided: the disk could not be tried" && return ;;
  esac
  [ -z "$why" ] && [ "$binary" != runs ] && why="the agent's program does not run: $binary"
  case $process in
  active\ [Tt]) [ -z "$why" ] && why="the agent's process is stopped" ;;
  active\ ?) ;;
  *) [ -z "$why" ] && why="$agent_unit is ${process%% *}" ;;
  esac
  if [ -z "$why" ] && [ -n "$clock" ]; then
    skew=$((${clock%.*} - ${before%.*}))
    { [ "${skew#-}" -gt 7 ] && why="the clock is $skew s off"; } || true
  fi
  if [ -n "$why" ]; then say node_readiness fail "$why"; else say node_readiness pass "disk ${disk#* }%, agent ${process%% *}"; fi
}

# shellcheck disable=SC2016
node_runtime_api_reachability() {
  without node_runtime_api_reachability node_ops_access && return
  local said code
  said=$(node 'a=$(of GPUAAS_API_URL); h=${a#*://}; h=${h%%[:/]*}
    getent hosts "$h" >/dev/null || { echo "000 $a dns"; exit; }
    curl -s -m 4 --http1.1 --curves X25519:P-256 --cacert "$d/ca-bundle.crt" -o /dev/null -w "%{http_code} $a %{errormsg}" "$a/healthz"')
  code=${said%% *}
  case $code in
  '') say node_runtime_api_reachability skip "undecided: no answer from the node" ;;
  000 | 429 | 5??) say node_runtime_api_reachability fail "HTTP $said" ;;
  *) say node_runtime_api_reachability pass "HTTP $said" ;;
  esac
}

# shellcheck disable=SC2016
node_recovery_status() {
  without node_recovery_status node_ops_access && return
  local cert told wait code why='' url peek
  cert=$(node 'c=$d/cert.pem
    [ -s "$c" ] && [ -s "$d/key.pem" ] || { echo missing; exit; }
    openssl x509 -in "$c" -noout -checkend 0 >/dev/null || { echo expired; exit; }
    s=$(openssl x509 -in "$c" -noout -startdate); [ "$(date -d "${s#*=}" +%s)" -le "$(date +%s)" ] || { echo "not valid yet"; exit; }
    [ "$(openssl x509 -in "$c" -noout -pubkey)" = "$(openssl pkey -in "$d/key.pem" -pubout)" ] || { echo "not of this key"; exit; }
    openssl x509 -in "$c" -noout -subject -ext subjectAltName | grep -q "$(of GPUAAS_NODE_ID)" || { echo "not of this node"; exit; }
    openssl x509 -in "$c" -noout -issuer')
  told=$(node 'of GPUAAS_API_URL')
  case $cert in
  issuer=*) ;;
  *) why="certificate: ${cert:-could not be read}" ;;
  esac
  [ -z "$why" ] && [ -n "$signing" ] && [ -n "$ingress" ] && [ "$signing" != "$ingress" ] && why="the ingress trusts another CA than signs nodes"
  [ -z "$why" ] && [ -n "$node_runtime_api_url" ] && [ "${told%/}" != "$node_runtime_api_url" ] && why="the agent uses $told"
  if [ "${status[node_runtime_api_reachability]}" != pass ]; then
    if [ -n "$why" ]; then say node_recovery_status fail "$why"; else say node_recovery_status skip "needs node_runtime_api_reachability"; fi
    return
  fi
  url=${told%/} peek="/internal/v1/nodes/$node_id/tasks/wait?timeout=0&peek=1"
  wait=$(node "curl -s -m 4 --http1.1 --curves X25519:P-256 --cacert \"\$d/ca-bundle.crt\" --cert \"\$d/cert.pem\" --key \"\$d/key.pem\" -H $(quote "X-Correlation-Id: $correlation") -o /dev/null -w '%{http_code} %{errormsg}' $(quote "$url$peek")")
  code=${wait%% *}
  case $why:$code in
  ?*:*) say node_recovery_status fail "$why" ;;
  :2??) listener_asks ;;
  :*) say node_recovery_status fail "task wait: HTTP $wait" ;;
  esac
}

# listener_asks: a listener that takes the task wait without asking for the certificate is not the node's.
# shellcheck disable=SC2016
listener_asks() {
  local seen
  seen=$(node 'a=$(of GPUAAS_API_URL); h=${a#*://}; h=${h%%/*}; n=${h%%:*}; [ "$n" = "$h" ] && h=$h:443
    openssl s_client -connect "$h" -servername "$n" -groups X25519:P-256 -CAfile "$d/ca-bundle.crt" -cert "$d/cert.pem" -key "$d/key.pem" </dev/null 2>/dev/null | grep -c -E "^(Client Certificate Types|Requested Signature Algorithms)"')
  if [ "${seen:-0}" -gt 0 ]; then
    say node_recovery_status pass "certificate holds, task wait is let in"
  else
    say node_recovery_status fail "the listener asks for no certificate"
  fi
}

node_task_roundtrip() {
  without node_task_roundtrip control_plane_access && return
  printf '{"type":"noop","payload":{},"ttl_seconds":15,"correlation_id":"%s"}' "$correlation" >"$work/task"
  api "/v1/admin/nodes/$node_id/tasks" -H 'Content-Type: application/json' --data-binary @"$work/task"
  local id state='' until
  id=$(field '.task_id // .id')
  [ -n "$id" ] || { say node_task_roundtrip skip "undecided: no task was taken: HTTP $code $why" && return; }
  until=$((SECONDS + 6))
  while [ "$SECONDS" -lt "$until" ]; do
    api "/v1/admin/tasks/$id"
    state=$(field .status)
    case $state in completed | failed | expired) break ;; esac
    sleep 0.06
  done
  case $state in
  completed)
    if [ "${stale_tasks:-0}" -gt 0 ]; then
      say node_task_roundtrip fail "$stale_tasks expired tasks still count"
    else
      say node_task_roundtrip pass "a no-op came back"
    fi
    ;;
  '') say node_task_roundtrip skip "undecided: HTTP $code $why" ;;
  *) say node_task_roundtrip fail "the no-op is $state" ;;
  esac
}

terminal_token_mint() {
  without terminal_token_mint allocation_binding && return
  api "/v1/allocations/$allocation_id/terminal-token" -X POST
  session=$(field .session_id)
  if [[ $code != 2?? || -z $session ]]; then
    say terminal_token_mint fail "HTTP $code $why" && return
  fi
  { cat "$work/plain" && printf 'Sec-WebSocket-Protocol: gpuaas.terminal.v1, bearer.' && field .token; } >"$work/browser"
  rm -f "$work/body"
  say terminal_token_mint pass "session $session"
}

terminal_public_route() {
  ask "$terminal_base/healthz" "$terminal_resolve_address" -H @"$work/plain"
  case $code in
  2??) say terminal_public_route pass "HTTP $code" ;;
  *) say terminal_public_route fail "HTTP $code $why" ;;
  esac
}

# A browser's WebSocket, as far as curl can: the upgrade's status line, then the first frame's text.
browser_terminal_ws() {
  [ "$run_ws_smoke" = true ] || { say browser_terminal_ws skip "not asked for" && return; }
  without browser_terminal_ws terminal_token_mint terminal_public_route && return
  local key line patience=$((stream_timeout + 3)) pid
  key=$(openssl rand -base64 16)
  pin "$terminal_base" "$terminal_resolve_address" || { say browser_terminal_ws fail "the name cannot be resolved" && return; }
  exec {wire}< <(exec curl -s -i -N -m "$patience" --http1.1 --curves X25519:P-256 --cacert "$ca" "${pinned[@]}" -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H "Sec-WebSocket-Key: $key" -H "Origin: $terminal_base" -H @"$work/browser" "$terminal_base/v1/terminal/$session" 2>/dev/null)
  pid=$!
  IFS= read -r -t "$patience" line <&"$wire"
  code=${line#* } code=${code%% *} first='' frame=''
  if [ "$code" = 101 ]; then
    accepted=yes
    while IFS= read -r -t "$patience" -d '}' line <&"$wire"; do
      case $line in
      *'"type":"ready"'*) first=ready && break ;;
      *'"type":"error"'*) first=error frame=${line##*'"code":"'} frame=${frame%%\"*} && break ;;
      *'"type":"exit"'*) first='exit' && break ;;
      esac
    done
  fi 2>/dev/null
  kill "$pid" 2>/dev/null
  exec {wire}<&-
  case $accepted:$first:$frame in
  yes:ready:* | yes:error:pty_* | yes:error:user_*) say browser_terminal_ws pass "accepted, $first $frame" ;;
  yes:error:*) say browser_terminal_ws fail "the gateway says $frame" ;;
  yes:*) say browser_terminal_ws fail "accepted, then silence" ;;
  *) say browser_terminal_ws fail "no upgrade: HTTP $code" ;;
  esac
}

terminal_open_task() {
  [ -n "$accepted" ] || { say terminal_open_task skip "needs an accepted browser session" && return; }
  local until=$((SECONDS + 3)) state claimed
  while :; do
    api "/v1/admin/terminal/sessions/$session"
    { read -r state && read -r claimed && read -r stream; } < <(jq -r '.task.status // "", .task.claimed_at // "", .node_stream_connected_at // ""' "$work/body" 2>/dev/null)
    case $state in completed | failed | expired) break ;; esac
    [ "$SECONDS" -lt "$until" ] || break
    sleep 0.06
  done
  row=$code
  case $state:$claimed in
  :*) say terminal_open_task skip "undecided: HTTP $code $why" ;;
  completed:* | failed:*) say terminal_open_task pass "claimed, now $state" ;;
  dispatched:* | *:?*)
    if [ "$first" = ready ] || [ "$state" = expired ]; then
      say terminal_open_task fail "claimed, and its result never came (browser saw ${first:-nothing}, task is $state)"
    else
      say terminal_open_task skip "claimed, and not answered yet (task is $state)"
    fi
    ;;
  *) say terminal_open_task fail "no agent claimed terminal.open (task is $state)" ;;
  esac
}

node_terminal_reachability() {
  without node_terminal_reachability node_ops_access && return
  local said script
  # shellcheck disable=SC2016
  script='t=$(of GPUAAS_TERMINAL_API_URL); h=${t#*://}; h=${h%%[:/]*}
    getent hosts "$h" >/dev/null || { echo "000 $t dns"; exit; }
    curl -s -m 4 --http1.1 --curves X25519:P-256 --cacert "$d/ca-bundle.crt" --cert "$d/cert.pem" --key "$d/key.pem" -H "Connection: Upgrade" -H "Upgrade: websocket" \
      -H "Sec-WebSocket-Version: 13" -H "Sec-WebSocket-Key: $(openssl rand -base64 16)" -w " %{http_code} $t %{errormsg}" "$t/internal/v1/terminal/preflight-nobody"'
  said=$(node "$script")
  case $said in
  '') say node_terminal_reachability skip "undecided: no answer from the node" ;;
  *'"session_not_found"'*' 404 '*) say node_terminal_reachability pass "session_not_found" ;;
  *) say node_terminal_reachability fail "${said:0:200}" ;;
  esac
}

gateway_node_stream() {
  [ -n "$accepted" ] || { say gateway_node_stream skip "needs an accepted browser session" && return; }
  case ${row:-000}:$stream in
  2??:?*) say gateway_node_stream pass "the node's stream came" ;;
  2??:) say gateway_node_stream fail "no stream of the node was seen" ;;
  *) say gateway_node_stream skip "undecided: the session could not be read" ;;
  esac
}

# shellcheck disable=SC2016
workload_terminal_startup_failure() {
  local hop=workload_terminal_startup_failure seen=''
  if [ "${status[node_ops_access]}" = pass ] && [ -n "$os_user" ]; then
    seen=$(node 'n='"$(quote "$os_user")"'; s=$(getent passwd "$n") || { echo missing; exit; }
      s=${s##*:}; s=${s:-/bin/sh}; [ -f "$s" ] && [ -x "$s" ] || { echo "no shell $s"; exit; }
      case ${s##*/} in nologin|false|true) echo "no shell $s";; *) echo ok;; esac')
    [ -n "$seen" ] && [ "$seen" != ok ] && say $hop fail "user $os_user: $seen" && return
  fi
  if [ -z "$accepted" ]; then
    if [ -n "$seen" ] && [ "$run_ws_smoke" != true ]; then say $hop pass "user $os_user is there"; else say $hop skip "needs an accepted browser session"; fi
    return
  fi
  if [ "$first" = ready ]; then say $hop pass "user $os_user, terminal ready"; else say $hop fail "${first:-silence} $frame"; fi
}

# shellcheck disable=SC2016
app_runtime_liveness() {
  without app_runtime_liveness node_ops_access && return
  [ -n "$app_unit$app_port" ] || { say app_runtime_liveness skip "the workload is not known" && return; }
  local unit port
  unit=$(node "echo \"\$(systemctl is-active $(quote "$app_unit")) \$(sed -n 's/^State:[[:space:]]*\\(.\\).*/\\1/p' \"/proc/\$(systemctl show -P MainPID $(quote "$app_unit"))/status\" 2>/dev/null)\"")
  port=$(node "nc -z -w 3 127.0.0.1 $(quote "$app_port") && echo open || echo closed")
  case $unit:$port in
  active\ [Tt]:*) say app_runtime_liveness fail "$app_unit is stopped" ;;
  active\ ?:open) say app_runtime_liveness pass "$app_unit runs, port $app_port answers" ;;
  :*) say app_runtime_liveness skip "undecided: no answer from the node" ;;
  *) say app_runtime_liveness fail "$app_unit is ${unit%% *}, port $app_port is $port" ;;
  esac
}

app_user_route() {
  without app_user_route allocation_binding && return
  [ -n "$product_url" ] || { say app_user_route skip "no product URL" && return; }
  ask "$product_url" "$app_resolve_address" -H @"$work/plain"
  case $code in
  2??) say app_user_route pass "HTTP $code" ;;
  *) say app_user_route fail "HTTP $code $why" ;;
  esac
}

signing='' ingress='' os_user='' app_unit='' app_port='' product_url='' stale_tasks=0
session='' accepted='' first='' frame='' stream='' row='' code=000 why=''
: "$node_runtime_resolve_address" "$node_terminal_url" "$node_terminal_resolve_address" # the node resolves for itself

control_plane_access
allocation_binding
node_heartbeat
node_ops_access
node_readiness
node_runtime_api_reachability
node_recovery_status
node_task_roundtrip
terminal_token_mint
terminal_public_route
browser_terminal_ws
terminal_open_task
node_terminal_reachability
gateway_node_stream
workload_terminal_startup_failure
app_runtime_liveness
app_user_route

exit $((failed * 3))
