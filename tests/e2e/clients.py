"""Scripts that drive a server by published clients: `clients.py URL CLIENT`, a line of JSON each. test_serve_clients.py runs them."""
import json
import os
import subprocess
import sys

PROMPT = [{"role": "user", "content": "Count to twenty."}]
TOOL = {"type": "function", "function": {"name": "get", "description": "Gets a thing.", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}}


def openai_client(url):
    import openai
    c = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    model = c.models.list().data[0].id
    yield "models", model
    whole = c.chat.completions.create(model=model, messages=PROMPT, max_tokens=30, temperature=0)
    yield "whole", whole.choices[0].message.content
    yield "usage", whole.usage.completion_tokens
    yield "steps", whole.model_extra["logitspec"]["steps"]
    text = usage = ""
    for part in c.chat.completions.create(model=model, messages=PROMPT, max_tokens=30, temperature=0, stream=True, stream_options={"include_usage": True}):
        text += part.choices[0].delta.content or "" if part.choices else ""
        usage = part.usage.completion_tokens if part.usage else usage
    yield "stream", text
    yield "stream usage", usage
    yield "text", c.completions.create(model=model, prompt="Once upon a time", max_tokens=20).choices[0].text
    p = c.chat.completions.create(model=model, messages=PROMPT, max_tokens=4, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    yield "probabilities", [len(p), len(p[0].top_logprobs)]
    try:
        c.chat.completions.create(model=model, messages=PROMPT, n=2)
    except openai.BadRequestError as e:
        yield "refused", e.body["message"]
    try:
        c.chat.completions.create(model="another", messages=PROMPT)
    except openai.NotFoundError as e:
        yield "no model", e.body["message"]


def anthropic_client(url):
    import anthropic
    c = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    model = "default"
    whole = c.messages.create(model=model, max_tokens=30, messages=PROMPT)
    yield "whole", whole.content[0].text
    yield "stop", whole.stop_reason
    yield "usage", whole.usage.output_tokens
    with c.messages.stream(model=model, max_tokens=30, messages=PROMPT) as s:
        yield "stream", "".join(s.text_stream)
        yield "stream stop", s.get_final_message().stop_reason
    try:
        c.messages.create(model=model, max_tokens=3, messages=PROMPT, thinking={"type": "enabled", "budget_tokens": 1024})
    except anthropic.BadRequestError as e:
        yield "refused", e.body["error"]["message"]


def litellm_client(url):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network
    import litellm
    litellm.telemetry = False
    for name, base, key in ("openai/default", url + "/v1", "openai"), ("anthropic/default", url, "anthropic"):
        r = litellm.completion(model=name, api_base=base, api_key="none", messages=PROMPT, max_tokens=30, temperature=0)
        yield key, r.choices[0].message.content
        parts = litellm.completion(model=name, api_base=base, api_key="none", messages=PROMPT, max_tokens=30, temperature=0, stream=True)
        yield key + " stream", "".join(p.choices[0].delta.content or "" for p in parts)


def llm_client(url):
    folder = os.environ["LLM_USER_PATH"]
    with open(os.path.join(folder, "extra-openai-models.yaml"), "w", encoding="utf-8") as f:
        f.write(f"- model_id: here\n  model_name: default\n  api_base: {url}/v1\n")
    for name, more in ("whole", ["--no-stream"]), ("stream", []):
        r = subprocess.run([sys.executable, "-m", "llm", "-m", "here", "--key", "none", "-o", "max_tokens", "30", "-n", *more, PROMPT[0]["content"]],
                           capture_output=True, text=True, check=False)
        yield name, r.stdout.removesuffix("\n") if r.returncode == 0 else r.stderr


def aider_client(url):
    with open("a.py", "w", encoding="utf-8") as f:
        f.write("def add(a, b):\n    return a + b\n")
    quiet = "--no-git --no-check-update --no-analytics --no-show-model-warnings --no-show-release-notes --no-pretty --yes-always --no-detect-urls"
    r = subprocess.run([sys.executable, "-m", "aider", "--model", "openai/default", "--openai-api-base", url + "/v1", "--openai-api-key", "none", *quiet.split(),
                        "--map-tokens", "0", "--chat-mode", "ask", "--message", PROMPT[0]["content"], "a.py"], capture_output=True, text=True, check=False,
                       stdin=subprocess.DEVNULL, env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    yield "answer", r.stdout if r.returncode == 0 else r.stderr


if __name__ == "__main__":
    for what, value in globals()[sys.argv[2] + "_client"](sys.argv[1]):
        print(json.dumps([what, value]), flush=True)
