"""A question to the installed provider: python ask.py [antiphon.toml]."""

from __future__ import annotations

import sys

import antiphon

if __name__ == "__main__":
    config = sys.argv[1] if len(sys.argv) > 1 else None
    with antiphon.open_blocking(config) as gateway:
        response = gateway.create(
            model="acme/acme-large", input="Hello", max_output_tokens=50, top_p=0.5
        )
        print(antiphon.output_text(response))
        for diagnostic in gateway.diagnostics(response):
            print(diagnostic["code"], diagnostic["param"])
