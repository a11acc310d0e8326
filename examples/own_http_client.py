"""Only the translation, with httpx2 as the HTTP client. It needs the package httpx2.

python examples/own_http_client.py BASE_URL PROVIDER MODEL, with the key in API_KEY
"""

from __future__ import annotations

import os
import sys

import httpx2

import antiphon


def main(base_url: str, provider: str, model: str) -> None:
    request = {"model": model, "input": "Hello", "stream": True}
    translator = antiphon.Translator(request, provider=provider)
    outbound = translator.outbound
    headers = {**outbound.headers, "authorization": f"Bearer {os.environ.get('API_KEY', '')}"}
    url = base_url + outbound.path
    with httpx2.stream(outbound.method, url, content=outbound.body, headers=headers) as response:
        for chunk in response.iter_bytes():
            for event in translator.feed(chunk):
                print(event["type"])
    for event in translator.close():
        print(event["type"])
    print(antiphon.output_text(translator.response))


if __name__ == "__main__":
    main(*sys.argv[1:4])
