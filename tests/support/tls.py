"""A certificate for 127.0.0.1, made for one test."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_contexts(directory: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server with this certificate, and of a client that trusts it. `names` are
    further names of the server."""
    key = ec.generate_private_key(ec.SECP256R1())
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate = _sign(key, names).public_bytes(_PEM)
    file = directory / "server.pem"
    file.write_bytes(key.private_bytes(_PEM, pkcs8, plain) + certificate)
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(file)
    return of_server, ssl.create_default_context(cadata=certificate.decode())


_PEM = serialization.Encoding.PEM


def _sign(key: ec.EllipticCurvePrivateKey, names: Sequence[str]) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    subjects = [address, *map(x509.DNSName, names)]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(subjects), critical=False)
        .sign(key, hashes.SHA256())
    )
