from __future__ import annotations

import pytest

from kohort.cli.keda_scaler.external_scaler import settings_from
from kohort.cli.keda_scaler.protobuf import ScaledObjectRef
from kohort.group.autoscaling.scaling_decision import ScalingSettings
from kohort.model.setting import SettingsError


def settings(**metadata: str) -> ScalingSettings:
    return settings_from(ScaledObjectRef("so", "ns", metadata))


def test_metadata_are_settings_and_kedas_own_keys_are_left_out() -> None:
    found = settings(
        scalerAddress="scaler:9097",
        enableTLS="true",
        consumerGroup="billing",
        lagSeconds="20",
        recordsPerSecondFromEnv="500",
        membersPerPod="2",
        drain="StatefulSet",
    )
    expected = ScalingSettings("billing", 20.0, records_per_second=500.0, members_per_pod=2, drain="statefulset")
    assert found == expected
    assert settings(consumerGroupFromEnv="billing") == ScalingSettings("billing")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "the trigger has no metadata key consumerGroup: set it to the id of the group"),
        ({"consumerGroup": ""}, "the trigger has no metadata key consumerGroup: set it to the id of the group"),
        (
            {"consumerGroup": "g", "lagSecond": "5"},
            "the trigger has no metadata key 'lagSecond'; did you mean 'lagSeconds'?",
        ),
        ({"consumerGroup": "g", "lagSeconds": "-1"}, "lagSeconds='-1': expected a number from 0.1 to 2147483647"),
        ({"consumerGroup": "g", "lagSeconds": "nan"}, "lagSeconds='nan': expected a number from 0.1 to 2147483647"),
        (
            {"consumerGroup": "g", "membersPerPod": "0"},
            "membersPerPod='0': expected a whole number from 1 to 2147483647",
        ),
        ({"consumerGroup": "g", "drain": "deployment"}, "drain='deployment': expected none or statefulset"),
    ],
)
def test_wrong_metadata_are_refused_with_a_sentence(metadata: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(**metadata)
    assert str(refused.value) == text
