"""What came encrypted is read as its sender wrote it, by the vectors they publish; whatever was changed is not."""

import json
import re
from pathlib import Path

import pytest

from triggers.errors import BadDelivery
from triggers.sources.encrypted import check_wechat, open_feishu, open_wechat
from triggers.sources.verify import Forged
from triggers.sources.xml_body import read_xml

VECTORS = json.loads((Path(__file__).parents[1] / "data/signatures/encrypted.json").read_text())
FEISHU = [vector for vector in VECTORS if vector["provider"] == "feishu"]
WECOM = [vector for vector in VECTORS if vector["provider"] == "wecom"]


def named(vectors):
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def sealed_of(vector) -> str:
    body = vector.get("body", "")
    inside = re.search(r"<Encrypt><!\[CDATA\[(.*?)\]\]>", body)
    return vector["query"].get("echostr") or (inside[1] if inside else "")


@pytest.mark.parametrize("vector", named(FEISHU))
def test_feishu_is_read(vector):
    sealed = json.loads(vector["body"])["encrypt"]
    assert open_feishu(sealed, vector["secret"]).decode().startswith(vector["plaintext"][:200])
    for wrong in (sealed[:-8], "?" + sealed[1:], ""):
        with pytest.raises(Forged):
            open_feishu(wrong, vector["secret"])


@pytest.mark.parametrize("vector", named(WECOM))
def test_wecom_is_read_when_its_signature_fits_and_it_is_for_us(vector):
    sealed, query = sealed_of(vector), vector["query"]
    given = (vector["token"], query["timestamp"], query["nonce"], sealed)
    check_wechat(query["msg_signature"], *given)
    plain = open_wechat(sealed, vector["encoding_aes_key"], vector["receive_id"]).decode()
    assert plain.startswith(vector["plaintext"][:200])
    with pytest.raises(Forged):
        open_wechat(sealed, vector["encoding_aes_key"], "somebody-else")
    for place in range(4):
        other = [*given]
        other[place] += "0"
        with pytest.raises(Forged):
            check_wechat(query["msg_signature"], *other)


def test_without_a_token_nothing_fits():
    with pytest.raises(Forged):
        check_wechat("da39a3ee5e6b4b0d3255bfef95601890afd80709", "", "", "", "")


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-le", "utf-16"])
def test_xml_that_defines_words_of_its_own_is_refused_in_every_charset(charset):
    bomb = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><xml>&d;</xml>'
    with pytest.raises(BadDelivery):
        read_xml(bomb.encode(charset))
