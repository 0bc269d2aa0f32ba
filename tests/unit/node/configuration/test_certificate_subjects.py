"""Subjects of certificates as Java writes them: the texts are what X500Principal.getName() printed for these."""

from __future__ import annotations

import base64

import pytest

from kohort.node.configuration.principal_mapping import subject

CERTIFICATES = (
    (
        r"1.2.840.113549.1.9.1=#160f626f62406578616d706c652e6f7267,"
        r"OU=a+CN=bob,O=Kohort\, Inc.,L=Munich,ST=Bavaria,C=DE",
        "MIICVjCCAfugAwIBAgIUZk5AukwgfBT0wVTHRersNpA+yKUwCgYIKoZIzj0EAwIwfzELMAkGA1UEBhMCREUxEDAOBgNVBAgM"
        "B0JhdmFyaWExDzANBgNVBAcMBk11bmljaDEVMBMGA1UECgwMS29ob3J0LCBJbmMuMRYwCAYDVQQLDAFhMAoGA1UEAwwDYm9i"
        "MR4wHAYJKoZIhvcNAQkBFg9ib2JAZXhhbXBsZS5vcmcwIBcNMjYxMTI1MjIwMjEzWhgPMjA4MTA4MjgyMjAyMTNaMH8xCzAJ"
        "BgNVBAYTAkRFMRAwDgYDVQQIDAdCYXZhcmlhMQ8wDQYDVQQHDAZNdW5pY2gxFTATBgNVBAoMDEtvaG9ydCwgSW5jLjEWMAgG"
        "A1UECwwBYTAKBgNVBAMMA2JvYjEeMBwGCSqGSIb3DQEJARYPYm9iQGV4YW1wbGUub3JnMFkwEwYHKoZIzj0CAQYIKoZIzj0D"
        "AQcDQgAErAbR6NSk/9PEAKPNUGWJA4klkZGCxoMRB0WIQVfzpuZfLb2ZIt5vOlMCucd2/hdMZvYTrFbCpFeaZ/dAXZIUq6NT"
        "MFEwHQYDVR0OBBYEFJ05KV+EuC7nEw2Wz45KUhx657QuMB8GA1UdIwQYMBaAFJ05KV+EuC7nEw2Wz45KUhx657QuMA8GA1Ud"
        "EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAMXS/jH70qxXyAIlqi8aRaX3QYnmFHg6m/GfPOlxntpeAiEA6GoQAXxB"
        "ZzxzIr7LvXiO86+KfL31dtuuDOSiAeixK2o=",
    ),
    (
        r"CN=a/b\\\,c\;\<d\>\"e\" \#f\=g\+h",
        "MIIBlTCCATugAwIBAgIUfufFY144LggEUFOP/vq3XmVxxF8wCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUYS9iXCxjOzxkPiJl"
        "IiAjZj1nK2gwIBcNMjYxMTI1MjIwMjEzWhgPMjA4MTA4MjgyMjAyMTNaMB8xHTAbBgNVBAMMFGEvYlwsYzs8ZD4iZSIgI2Y9"
        "ZytoMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEy8G91kelbsmqeC2fvReEf9W0t5jkuCndShEhioXssgsxJu1hATnkCOGC"
        "SKh+1MM5Ex7XLlnzEN6vwL1iAbGUN6NTMFEwHQYDVR0OBBYEFFtg1YwwJc+cDHm/gXRG5YmX4dKBMB8GA1UdIwQYMBaAFFtg"
        "1YwwJc+cDHm/gXRG5YmX4dKBMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgLUx2m1mlUb3NNJvwPdTF6ano"
        "CpeBdoi39vYGdxtdlbACIQDi5cJkCUZRemDBmROkkYWQI7fI4770w4CVPxYYXlgYUg==",
    ),
    (
        r"CN=\ lead and trail\ ",
        "MIIBjTCCATOgAwIBAgIUb6Vtr/uwgN4DOFD/AbC9Cs+f5skwCgYIKoZIzj0EAwIwGzEZMBcGA1UEAwwQIGxlYWQgYW5kIHRy"
        "YWlsIDAgFw0yNjExMjUyMjAyMTNaGA8yMDgxMDgyODIyMDIxM1owGzEZMBcGA1UEAwwQIGxlYWQgYW5kIHRyYWlsIDBZMBMG"
        "ByqGSM49AgEGCCqGSM49AwEHA0IABItD9i2Itzy/H3f0RzXrqF7sRzjOjxnjsjBKTJxOleCs+BZ+n29uTjDIn9+5PbwJh6fs"
        "cHOW4HI9w9V6m2DONqCjUzBRMB0GA1UdDgQWBBSSPaBDF3Fo2mfmM7c7veXdLtw4QjAfBgNVHSMEGDAWgBSSPaBDF3Fo2mfm"
        "M7c7veXdLtw4QjAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIDJuUVeG1aPugf1O5d52FWHNlwGPFghht9mo"
        "iagq06IGAiEA1ZtapwEoSgldlEuvtESLqgOJqNWL3uouWZZvSNhvs7Y=",
    ),
    (
        r"2.5.4.4=#0c024261,2.5.4.42=#0c03416e6e,2.5.4.12=#0c024472,2.5.4.5=#13023137,"
        r"STREET=Some Road 1,DC=org,UID=u1,CN=\#sharp",
        "MIICYzCCAgmgAwIBAgIUWjI0XQRTZKZo7MFMFc25/V/SJocwCgYIKoZIzj0EAwIwgYUxDzANBgNVBAMMBiNzaGFycDESMBAG"
        "CgmSJomT8ixkAQEMAnUxMRMwEQYKCZImiZPyLGQBGRYDb3JnMRQwEgYDVQQJDAtTb21lIFJvYWQgMTELMAkGA1UEBRMCMTcx"
        "CzAJBgNVBAwMAkRyMQwwCgYDVQQqDANBbm4xCzAJBgNVBAQMAkJhMCAXDTI2MTEyNTIyMDIxM1oYDzIwODEwODI4MjIwMjEz"
        "WjCBhTEPMA0GA1UEAwwGI3NoYXJwMRIwEAYKCZImiZPyLGQBAQwCdTExEzARBgoJkiaJk/IsZAEZFgNvcmcxFDASBgNVBAkM"
        "C1NvbWUgUm9hZCAxMQswCQYDVQQFEwIxNzELMAkGA1UEDAwCRHIxDDAKBgNVBCoMA0FubjELMAkGA1UEBAwCQmEwWTATBgcq"
        "hkjOPQIBBggqhkjOPQMBBwNCAAT9lhiclGQRiQH9Y0CV+8nuFbUI14jcJiwdi8FdVp9OARRduPkLIWffEEPj7iX2gUZoSPJv"
        "7mWx8Ckpy3mRTYQVo1MwUTAdBgNVHQ4EFgQUSSD8cGU591SmKQrqK5KBj5/QCXUwHwYDVR0jBBgwFoAUSSD8cGU591SmKQrq"
        "K5KBj5/QCXUwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA3/MVsBgnwdipnzsj/P9iJo6AEEvaKVDk+YKM"
        "0Txz/+QCIHx/A9CFQyWIuiVoc1m0u6j5vA1gHOrj73FQZTdplw4i",
    ),
    (
        r"CN=Jürgen 日本",
        "MIIBijCCAS+gAwIBAgIUMIica5zk2CSQ3MWLRp1XeU37j54wCgYIKoZIzj0EAwIwGTEXMBUGA1UEAwwOSsO8cmdlbiDml6Xm"
        "nKwwIBcNMjYxMTI1MjIwMjEzWhgPMjA4MTA4MjgyMjAyMTNaMBkxFzAVBgNVBAMMDkrDvHJnZW4g5pel5pysMFkwEwYHKoZI"
        "zj0CAQYIKoZIzj0DAQcDQgAE/nS2lr1g4TPYoP5B0ugkvA4e2YJRHQSHm+jD9Hn6TfUtGOhIfY9FnDbkth33jnqcm4CLWDzV"
        "/8mwDZ6IG0GVO6NTMFEwHQYDVR0OBBYEFLlPtMN0bVP3SRj/ucedAVcsTUiHMB8GA1UdIwQYMBaAFLlPtMN0bVP3SRj/uced"
        "AVcsTUiHMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhALoFZpRO844E7UCpIBHaq6o9EmUSu2tfNWWrSjXV"
        "qkIJAiEAjhwkhfGTCQEjIuB3+0B8mb7OCoNVRuBNWnGuC03aCz0=",
    ),
)


@pytest.mark.parametrize(("name", "certificate"), CERTIFICATES)
def test_the_subject_is_written_as_java_writes_it(name: str, certificate: str) -> None:
    assert subject(base64.b64decode(certificate)) == name


@pytest.mark.parametrize(
    "damaged", [b"", b"0", b"\x30\x84", b"\x30\x02\x30\x7f", b"\x30\x03\x30\x01\xa0", b"\xff" * 40]
)
def test_a_malformed_certificate_is_a_value_error(damaged: bytes) -> None:
    with pytest.raises(ValueError):
        subject(damaged)


def test_every_cut_certificate_is_a_value_error() -> None:
    whole = base64.b64decode(CERTIFICATES[0][1])
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            subject(whole[:end])
