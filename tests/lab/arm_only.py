"""Push an index that lists only the arm64 image of another, and print its digest. URL CA DIGEST, in the lab's network."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request

from rackproof_lab.image import Registry

url, ca, digest = sys.argv[1:4]
kind = "application/vnd.oci.image.index.v1+json"
request = urllib.request.Request(f"{url}/v2/vllm/vllm-openai/manifests/{digest}", headers={"Accept": kind})
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ca)) as answer:
    index = json.loads(answer.read())
index["manifests"] = [entry for entry in index["manifests"] if entry["platform"]["architecture"] == "arm64"]
print(Registry(url, ca).manifest(index)["digest"])
