#!/bin/sh
# ownlab.sh NODES COMMAND...: runs COMMAND on a host whose lab is its own, with NODES nodes, or 0 if COMMAND raises one. A
# machine has one lab: one that is up is taken down before, and a new one raised afterwards. Needs root, and bin/.
# Tests of the crash matrix are a sample, whose seed it prints.
nodes=$1
shift
export GPUAASCTL_CRASH_SEED="${GPUAASCTL_CRASH_SEED:-$(date -u +%y%j%H)}"
echo "crash matrix: the sample of GPUAASCTL_CRASH_SEED=$GPUAASCTL_CRASH_SEED"
was=
if bin/gpuaasctl lab status >/dev/null 2>&1; then
  was=up
  echo "note: the lab that is up is taken down for the tests, and a new one raised afterwards"
  bin/gpuaasctl lab down
fi
code=0
if [ "$nodes" != 0 ]; then
  bin/gpuaasctl lab up --nodes "$nodes" || code=$?
fi
[ "$code" != 0 ] || "$@" || code=$?
if bin/gpuaasctl lab status >/dev/null 2>&1; then bin/gpuaasctl lab down; fi
if [ -n "$was" ]; then bin/gpuaasctl lab up; fi
exit "$code"
