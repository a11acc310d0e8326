"""A JSON schema of the Kubernetes objects in deploy/: the fields that the API has for them.

Written after the API reference (apps/v1, v1, policy/v1 of Kubernetes 1.31), with the fields that
operators use. A field that is not here may exist in the API; one that is misspelt does not.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
LABELS: Schema = {"type": "object", "additionalProperties": TEXT}
PORT: Schema = {"anyOf": [{"type": "string", "maxLength": 15}, {"type": "integer", "minimum": 1}]}
AMOUNT: Schema = {"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?(m|Ki|Mi|Gi)?$"}


def fields(required: str = "", **known: Schema) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": known,
        "required": required.split(),
        "additionalProperties": False,
    }


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def one_of(*values: str) -> Schema:
    return {"enum": [*values]}


SELECTOR = fields("matchLabels", matchLabels=LABELS)
METADATA = fields(name=TEXT, namespace=TEXT, labels=LABELS, annotations=LABELS)
PROBE = fields(
    "httpGet",
    httpGet=fields("path port", path=TEXT, port=PORT, scheme=one_of("HTTP", "HTTPS")),
    initialDelaySeconds=NUMBER,
    periodSeconds=NUMBER,
    timeoutSeconds=NUMBER,
    failureThreshold=NUMBER,
    successThreshold=NUMBER,
)
AMOUNTS = fields(cpu=AMOUNT, memory=AMOUNT)
COMMAND = fields("exec", exec=fields("command", command=many(TEXT)))
CONTAINER = fields(
    "name image",
    name=TEXT,
    image=TEXT,
    imagePullPolicy=one_of("Always", "IfNotPresent", "Never"),
    command=many(TEXT),
    args=many(TEXT),
    ports=many(fields("containerPort", name=TEXT, containerPort=NUMBER, protocol=TEXT)),
    env=many(fields("name", name=TEXT, value=TEXT, valueFrom={"type": "object"})),
    envFrom=many(fields(secretRef=fields("name", name=TEXT), configMapRef=METADATA)),
    startupProbe=PROBE,
    readinessProbe=PROBE,
    livenessProbe=PROBE,
    lifecycle=fields(preStop=COMMAND, postStart=COMMAND),
    resources=fields(requests=AMOUNTS, limits=AMOUNTS),
    securityContext=fields(
        allowPrivilegeEscalation=FLAG,
        readOnlyRootFilesystem=FLAG,
        capabilities=fields(drop=many(TEXT), add=many(TEXT)),
    ),
    volumeMounts=many(
        fields("name mountPath", name=TEXT, mountPath=TEXT, readOnly=FLAG, subPath=TEXT)
    ),
)
VOLUME = fields(
    "name",
    name=TEXT,
    configMap=fields("name", name=TEXT),
    secret=fields("secretName", secretName=TEXT),
    emptyDir=fields(sizeLimit=AMOUNT, medium=TEXT),
)
POD = fields(
    "containers",
    terminationGracePeriodSeconds=NUMBER,
    securityContext=fields(
        runAsNonRoot=FLAG,
        runAsUser=NUMBER,
        fsGroup=NUMBER,
        seccompProfile=fields("type", type=one_of("RuntimeDefault", "Unconfined", "Localhost")),
    ),
    topologySpreadConstraints=many(
        fields(
            "maxSkew topologyKey whenUnsatisfiable",
            maxSkew=NUMBER,
            topologyKey=TEXT,
            whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"),
            labelSelector=SELECTOR,
        )
    ),
    containers=many(CONTAINER),
    volumes=many(VOLUME),
)
DEPLOYMENT = fields(
    "selector template",
    replicas=NUMBER,
    selector=SELECTOR,
    strategy=fields(
        type=one_of("RollingUpdate", "Recreate"),
        rollingUpdate=fields(maxUnavailable=NUMBER, maxSurge=NUMBER),
    ),
    template=fields("metadata spec", metadata=METADATA, spec=POD),
)
SERVICE = fields(
    "selector ports",
    type=one_of("ClusterIP", "NodePort", "LoadBalancer"),
    selector=LABELS,
    ports=many(fields("port", name=TEXT, port=NUMBER, targetPort=PORT, protocol=TEXT)),
)
BUDGET = fields("selector", selector=SELECTOR, maxUnavailable=NUMBER, minAvailable=NUMBER)


def _object(version: str, kind: str, spec: Schema) -> Schema:
    head = {"apiVersion": one_of(version), "kind": one_of(kind)}
    return fields("apiVersion kind metadata spec", **head, metadata=METADATA, spec=spec)


SCHEMAS = {
    "Deployment": _object("apps/v1", "Deployment", DEPLOYMENT),
    "Service": _object("v1", "Service", SERVICE),
    "PodDisruptionBudget": _object("policy/v1", "PodDisruptionBudget", BUDGET),
}
"""By kind."""
