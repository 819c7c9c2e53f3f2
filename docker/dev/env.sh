# shellcheck shell=sh
# env.sh     to be sourced by any shell: the addresses and keys of the model server and of the Ray cluster, so that an
#            unmodified OpenAI() or Anthropic() client and a bare ray.init() find them
#
# Also /etc/profile.d/drydock.sh: an editor takes its terminals' and programs' variables from a login shell.
case ":$PATH:" in *:/opt/drydock/bin:*) ;; *) PATH=/opt/drydock/bin:/opt/venv/bin:$PATH ;; esac
RAY_ADDRESS=${RAY_ADDRESS:-ray-head:6379}
OPENAI_BASE_URL=${OPENAI_BASE_URL:-http://inference:8080/v1}
ANTHROPIC_BASE_URL=${ANTHROPIC_BASE_URL:-http://inference:8080}
export PATH RAY_ADDRESS OPENAI_BASE_URL ANTHROPIC_BASE_URL
if [ -r /run/secrets/api_key ]; then
    OPENAI_API_KEY=${OPENAI_API_KEY:-$(cat /run/secrets/api_key)}
    ANTHROPIC_API_KEY=${ANTHROPIC_API_KEY:-$(cat /run/secrets/api_key)}
    export OPENAI_API_KEY ANTHROPIC_API_KEY
fi
# An empty file stands for "no token"; the hub's library would take it for a token.
[ -s "${HF_TOKEN_PATH:-/nonexistent}" ] || unset HF_TOKEN_PATH
