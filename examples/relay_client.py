"""Logs in to a file relay with a credential, posts a text and reads it back: `pip install cryptography`.

RELAY=http://localhost:3001 WALLET_KEY=<64 hexadecimal digits> python examples/relay_client.py Hello

Encrypt what others shall not read: each logged-in user who knows the CID can get the file.
"""
import base64, json, os, secrets, sys, time, urllib.error, urllib.request

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

RELAY = os.environ.get("RELAY", "http://localhost:3001")
key = ec.derive_private_key(int(os.environ.get("WALLET_KEY") or secrets.token_hex(31), 16), ec.SECP256K1())
COMPRESSED = serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint
did = f"did:ethr:rsk:0x{key.public_key().public_bytes(*COMPRESSED).hex()}"


def send(path, body=None, headers={}):
    """Sends JSON, and returns the JSON of the answer. Problem details say why the relay refuses."""
    accept = {"Accept": "application/json, application/problem+json", "Content-Type": "application/json"}
    request = urllib.request.Request(RELAY + path, body and json.dumps(body).encode(), accept | headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        sys.exit(refusal.read().decode())


def encode(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def create_credential(challenge):
    """Returns a JWT whose only claim is the challenge. ES256K is ECDSA on secp256k1 with SHA-256, as r and s."""
    subject = {"claims": [{"claimType": "challenge", "claimValue": challenge}]}
    context = ["https://www.w3.org/2018/credentials/v1"]
    vc = {"@context": context, "type": ["VerifiableCredential"], "credentialSubject": subject}
    parts = {"alg": "ES256K", "typ": "JWT"}, {"iss": did, "aud": RELAY, "iat": int(time.time()), "vc": vc}
    signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
    r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


token = send("/auth", {"jwt": create_credential(send("/request-auth", {"did": did})["challenge"])})["token"]
posted = send("/file", {"file": " ".join(sys.argv[1:]) or "Hello"}, {"Authorization": token})
print(posted["url"])
print(send(f"/file/{posted['cid']}", headers={"Authorization": token})["file"])
