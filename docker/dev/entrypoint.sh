#!/bin/bash
# entrypoint.sh head|worker|dev     a node of our Ray cluster, in the foreground
# entrypoint.sh COMMAND...          anything else runs as it is given
#
#   head     control store, dashboard, and a node; ends when Ray ends
#   worker   a node; joins again when the head was restarted
#   dev      a node without CPUs, so that drivers run here and their tasks elsewhere; joins again likewise
#
# On several machines (docker/compose/share.yaml, worker.yaml), in the machine's own network and on fixed ports:
#   shared-head   `dev` and head in one
#   job COMMAND...   a head that waits for DRYDOCK_RAY_NODES nodes, runs a command, and ends with it
#   node          a node on another machine; asks the head first whether it may join, and says why not
#
# Never `ray stop`: it ends every Ray process that it can see.
set -eu

# The dashboard is reached through the gate, which asks everybody for the token; Ray itself only asks some.
readonly port=6379 gate_port=8265 dashboard_port=8266 ray_starts=3
# How long a node that lost its head keeps trying before it ends and joins anew.
export RAY_gcs_rpc_server_reconnect_timeout_s=${RAY_gcs_rpc_server_reconnect_timeout_s:-20}

main() {
    add_user
    start_relay
    case ${1:-} in
    head)
        /opt/venv/bin/python /opt/drydock/dashboard_gate.py gate "$gate_port" "http://127.0.0.1:$dashboard_port" &
        exec /opt/drydock/with-env ray start --head --port "$port" --dashboard-host 0.0.0.0 --dashboard-port "$dashboard_port" \
            --include-dashboard true "${common[@]}" ${DRYDOCK_RAY_CPUS:+--num-cpus "$DRYDOCK_RAY_CPUS"}
        ;;
    worker) stay_joined ${DRYDOCK_RAY_CPUS:+--num-cpus "$DRYDOCK_RAY_CPUS"} ;;
    dev)
        # For what knows no token: an editor's Ray extension, a browser behind a forwarded port, curl.
        relay_for=${RAY_ADDRESS:-ray-head:$port}
        /opt/venv/bin/python /opt/drydock/dashboard_gate.py relay "$gate_port" "http://${relay_for%:*}:$gate_port" &
        stay_joined --num-cpus 0 --num-gpus 0
        ;;
    shared-head)
        open_doors
        be_shared_head
        ;;
    job)
        shift
        run_job "$@"
        ;;
    node)
        fixed_ports node
        before_joining=ask_the_head
        # shellcheck disable=SC2086
        stay_joined $DRYDOCK_RAY_FLAGS ${DRYDOCK_RAY_CPUS:+--num-cpus "$DRYDOCK_RAY_CPUS"}
        ;;
    *) exec "$@" ;;
    esac
}

# What a shared head has beside Ray: the gate in front of the dashboard, and the place where nodes ask before they join.
open_doors() {
    fixed_ports head
    /opt/venv/bin/python /opt/drydock/dashboard_gate.py gate "${DRYDOCK_GATE_PORT:-$gate_port}" \
        "http://127.0.0.1:$DRYDOCK_INNER_DASHBOARD_PORT" 127.0.0.1 &
    doors=("$!")
    /opt/venv/bin/python -m harness.stack.machines.serve "$DRYDOCK_SHARE" "$DRYDOCK_MEETING_PORT" \
        "http://127.0.0.1:$DRYDOCK_INNER_DASHBOARD_PORT" &
    doors+=("$!")
}

be_shared_head() {
    address=$DRYDOCK_SHARE
    set_common
    # shellcheck disable=SC2086  # several words
    exec /opt/drydock/with-env ray start --head $DRYDOCK_RAY_FLAGS --include-dashboard true "${common[@]}" \
        ${DRYDOCK_RAY_CPUS:+--num-cpus "$DRYDOCK_RAY_CPUS"}
}

# In the head's own container, for a driver finds its node by what lies in /tmp and by process numbers.
run_job() {
    local head="" command="" starts=0 code=0
    open_doors
    trap 'end_job; exit 143' TERM INT
    until [ -n "$head" ] && /opt/drydock/ray-health; do
        if [ -z "$head" ] || ! kill -0 "$head" 2>/dev/null; then
            # Ray gives its own start 30 s, which can't be set, and a busy machine takes longer.
            starts=$((starts + 1))
            [ "$starts" -le "$ray_starts" ] || { end_job; exit 1; }
            be_shared_head &
            head=$!
        fi
        sleep 2 &
        wait $! || true
    done
    /opt/drydock/with-env "$@" &
    command=$!
    wait "$command" || code=$?
    end_job
    exit "$code"
}

end_job() {
    local one
    for one in "$command" "$head" "${doors[@]}"; do end_node "$one"; done
}

# Where nothing is told (in a Slurm job, say), the ports follow from that of RAY_ADDRESS alone.
fixed_ports() {
    [ -n "${DRYDOCK_RAY_FLAGS:-}" ] || eval "$(/opt/venv/bin/python -m harness.stack.ray_ports "$1" "${RAY_ADDRESS##*:}")"
}

# Whether the head takes this node, each time anew: it may have been brought up again as something else. What can't be
# mended by waiting ends the container, with the reason as its last words.
ask_the_head() {
    local told code
    while true; do
        code=0
        told=$(/opt/venv/bin/python -m harness.stack.machines.join "$RAY_ADDRESS") || code=$?
        case $code in
        0) break ;;
        75) nap ;;
        *) exit "$code" ;;
        esac
    done
    eval "$told"
    address=$DRYDOCK_NODE_ADDRESS
    set_common
    echo "drydock: joins $RAY_ADDRESS as $address"
}

# ssh and others refuse a user that has no entry; nothing in /etc is touched.
add_user() {
    id=$(id -u)
    if ! getent passwd "$id" >/dev/null 2>&1 && [ -w /var/lib/extrausers/passwd ]; then
        echo "dev:x:$id:$(id -g)::$HOME:/bin/bash" >>/var/lib/extrausers/passwd
    fi
}

# A model server on the host's own loopback, reached through a socket (docker/compose/host-relay.yaml). The volume
# outlives its users, and nobody can remove what another user left there: so each has a socket of their own.
start_relay() {
    [ -n "${DRYDOCK_RELAY_PORT:-}" ] || return 0
    /opt/venv/bin/python /opt/drydock/relay.py --from-tcp "127.0.0.1:$DRYDOCK_RELAY_PORT" \
        --to-unix "/run/drydock-relay/$(id -u).sock" &
}

# Ray puts objects into /dev/shm and warns, then slows down, where its store is larger than that.
store_bytes() {
    local bytes
    bytes=$(df --block-size=1 --output=avail /dev/shm | tail -n 1)
    echo $((bytes * 8 / 10))
}

# Joins the head's cluster and, when this node's Ray has ended, waits for the head and joins again.
stay_joined() {
    local node=""
    trap 'end_node "$node"; exit 0' TERM INT
    # Told that the head is gone for good, it need not wait until it notices (harness/stack/ray.py).
    trap 'end_node "$node"' USR1
    while true; do
        "$before_joining"
        /opt/drydock/with-env ray start --address "${RAY_ADDRESS:-ray-head:$port}" "${common[@]}" "$@" &
        node=$!
        # A signal interrupts `wait` too; what comes after it then is the trap.
        wait "$node" || true
        node=""
        echo "drydock: this node has left the cluster; it joins again as soon as the head answers"
        nap
    done
}

wait_for_head() {
    local address=${RAY_ADDRESS:-ray-head:$port}
    until (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; do nap; done
}

# In the background, because bash acts on a signal only between two commands.
nap() {
    sleep 0.5 &
    wait $! || true
}

end_node() {
    [ -n "$1" ] || return 0
    kill -TERM "$1" 2>/dev/null || return 0
    wait "$1" || true
}

set_common() {
    common=(--block --disable-usage-stats --log-color false --node-ip-address "${address:-127.0.0.1}" --object-store-memory "$(store_bytes)")
}

before_joining=wait_for_head
address=$(hostname -i 2>/dev/null | awk '{print $1}')
set_common
main "$@"
