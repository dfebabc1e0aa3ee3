#!/usr/bin/env python3
"""Checks that every value of the chart changes the rendered manifests as described.

    deploy/check/chart.py VERSION          VERSION: of Kubernetes

Each row of ROWS sets one value: (value, setting, object, path, expected, context). The field at `path` of
`object` (KIND or KIND/NAME) must be `expected` with the setting, and must not without it. `expected` is
the setting unless given; `context` has the other values of the row. A value without a row is an error.
Alerts and dashboard must be those of deploy/prometheus and deploy/grafana.
"""
import concurrent.futures
import functools
import json
import pathlib
import subprocess
import sys

import yaml

sys.dont_write_bytecode = True  # no __pycache__ in the tree
import values as described  # noqa: E402

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
CHART = DEPLOY / "helm/doorbell"
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
NAME = "test-doorbell"
SAME = object()

DAEMON = {"kind": "DaemonSet"}
SCALED = {"autoscaling": {"enabled": True}}
CLOSED = {"networkPolicy": {"enabled": True}}
SERVICE = {"serviceMonitor": {"enabled": True}}
PODS = {"podMonitor": {"enabled": True}}
RULES = {"prometheusRule": {"enabled": True}}
BOARD = {"dashboard": {"enabled": True}}

POD = "spec template spec"
CONTAINER = f"{POD} containers 0"
PORTS = f"{CONTAINER} ports"
ENDPOINT = "spec endpoints 0"
POD_ENDPOINT = "spec podMetricsEndpoints 0"
PEER = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
RULE = [{"ports": [{"port": 53}]}]
RELABELING = [{"action": "labeldrop", "regex": "x"}]
VARIABLE = [{"name": "A", "value": "b"}]
DIGEST = "sha256:" + "a" * 64
# The first line is indented, which needs an indentation indicator in YAML.
CONFIG = '  version = 1\n[listener.a]\nbind = ":1"\n'


def mounted(secret, **more):
    """The context of a field of existingSecrets: an item with these fields."""
    return [{"name": secret, "mountPath": "/run/secrets/a", **more}]


def port(**more):
    return [{"name": "probes", "port": 8080, **more}]


def row(value, setting, place, path, expected=SAME, context=None):
    return value, setting, place, path.split(), setting if expected is SAME else expected, context or {}


def metadata(value, place, context=None):
    """Rows for `labels` and `annotations` below a value."""
    prefix = f"{value}." if value else ""
    return [
        row(f"{prefix}{field}", {"own": "x"}, place, f"metadata {field} own", "x", context)
        for field in ("labels", "annotations")
    ]


ROWS = [
    row("kind", "DaemonSet", f"DaemonSet/{NAME}", "kind"),
    row("replicas", 5, "Deployment", "spec replicas"),
    row("replicas", None, "Deployment", "spec replicas"),
    row("replicas", 0, "Deployment", "spec replicas"),
    row("autoscaling.enabled", True, "HorizontalPodAutoscaler", "spec scaleTargetRef name", NAME),
    row("autoscaling.enabled", True, "Deployment", "spec replicas", None),
    row("autoscaling.minReplicas", 3, "HorizontalPodAutoscaler", "spec minReplicas", context=SCALED),
    row("autoscaling.maxReplicas", 9, "HorizontalPodAutoscaler", "spec maxReplicas", context=SCALED),
    row("autoscaling.metrics", [{"type": "Pods"}], "HorizontalPodAutoscaler", "spec metrics", context=SCALED),
    row("autoscaling.behavior", {"scaleUp": {}}, "HorizontalPodAutoscaler", "spec behavior", context=SCALED),
    row("nameOverride", "bell", "Deployment/test-bell", "metadata name", "test-bell"),
    row("nameOverride", "bell", "Deployment", "spec selector matchLabels app.kubernetes.io/name", "bell"),
    row("fullnameOverride", "front", "Deployment", "metadata name"),
    row("fullnameOverride", "front", "Service/front-admin", "metadata name", "front-admin"),
    *[
        row("commonLabels", {"team": "x"}, kind, "metadata labels team", "x")
        for kind in ("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", f"Service/{NAME}-admin", "ServiceAccount")
    ],
    row("commonLabels", {"team": "x"}, "Deployment", "spec template metadata labels team", "x"),
    row("commonAnnotations", {"team": "x"}, "Service", "metadata annotations team", "x"),
    row("image.repository", "r.example/d", "Deployment", f"{CONTAINER} image", f"r.example/d:{VERSION}"),
    row("image.tag", "9", "Deployment", f"{CONTAINER} image", "localhost/doorbell:9"),
    row("image.digest", DIGEST, "Deployment", f"{CONTAINER} image", f"localhost/doorbell@{DIGEST}"),
    row("image.pullPolicy", "Always", "Deployment", f"{CONTAINER} imagePullPolicy"),
    row("imagePullSecrets", [{"name": "r"}], "Deployment", f"{POD} imagePullSecrets"),
    row("config", CONFIG, "ConfigMap", "data doorbell.toml"),
    row("existingConfigMap", "mine", "Deployment", f"{POD} volumes 0 configMap name"),
    row("existingConfigMap", "mine", "ConfigMap", "kind", None),
    row("existingConfigSecret", "mine", "Deployment", f"{POD} volumes 0 secret secretName"),
    row("existingConfigSecret", "mine", "ConfigMap", "kind", None),
    *metadata("configMap", "ConfigMap"),
    row("existingSecrets", mounted("s"), "Deployment", f"{POD} volumes 2 secret secretName", "s"),
    row("existingSecrets", mounted("s"), "Deployment", f"{POD} volumes 2 secret defaultMode", 0o440),
    row("existingSecrets[].name", mounted("s"), "Deployment", f"{CONTAINER} volumeMounts 2 name", "doorbell-secret-0"),
    row("existingSecrets[].mountPath", mounted("s"), "Deployment", f"{CONTAINER} volumeMounts 2 mountPath", "/run/secrets/a"),
    row("existingSecrets[].items", mounted("s", items=[{"key": "a", "path": "b"}]), "Deployment",
        f"{POD} volumes 2 secret items", [{"key": "a", "path": "b"}]),
    row("existingSecrets[].optional", mounted("s", optional=True), "Deployment", f"{POD} volumes 2 secret optional", True),
    row("extraArgs", ["-q"], "Deployment", f"{CONTAINER} args 3", "-q"),
    row("extraEnv", VARIABLE, "Deployment", f"{CONTAINER} env"),
    row("envFrom", [{"secretRef": {"name": "s"}}], "Deployment", f"{CONTAINER} envFrom"),
    row("extraVolumes", [{"name": "v", "emptyDir": {}}], "Deployment", f"{POD} volumes 2 name", "v"),
    row("extraVolumeMounts", [{"name": "v", "mountPath": "/v"}], "Deployment", f"{CONTAINER} volumeMounts 2 mountPath", "/v"),
    row("extraInitContainers", [{"name": "i"}], "Deployment", f"{POD} initContainers"),
    row("extraContainers", [{"name": "c"}], "Deployment", f"{POD} containers 1 name", "c"),
    row("ports", [*port(), {"name": "web", "port": 81}], "Deployment", f"{PORTS} 1 name", "web"),
    row("ports[].name", [*port(), {"name": "web", "port": 81}], "Service", "spec ports 1 targetPort", "web"),
    row("ports[].port", port(port=81), "Deployment", f"{PORTS} 0 containerPort", 81),
    row("ports[].port", port(port=81), "Service", "spec ports 0 port", 81),
    row("ports[].port", port(port=81), "NetworkPolicy", "spec ingress 0 ports 0 port", 81, CLOSED),
    row("ports[].protocol", port(protocol="UDP"), "Deployment", f"{PORTS} 0 protocol", "UDP"),
    row("ports[].protocol", port(protocol="UDP"), "Service", "spec ports 0 protocol", "UDP"),
    row("ports[].hostPort", port(hostPort=82), "Deployment", f"{PORTS} 0 hostPort", 82),
    row("ports[].servicePort", port(servicePort=80), "Service", "spec ports 0 port", 80),
    row("ports[].nodePort", port(nodePort=30080), "Service", "spec ports 0 nodePort", 30080),
    row("ports[].appProtocol", port(appProtocol="https"), "Service", "spec ports 0 appProtocol", "https"),
    row("adminPort", 9999, "Deployment", f"{PORTS} 1 containerPort"),
    row("adminPort", 9999, f"Service/{NAME}-admin", "spec ports 0 port"),
    row("adminPort", 9999, "NetworkPolicy", "spec ingress 1 ports 0 port", context=CLOSED),
    row("adminPort", None, f"Service/{NAME}-admin", "kind"),
    row("adminPort", None, "Deployment", f"{PORTS} 1"),
    row("service.enabled", False, f"Service/{NAME}", "kind", None),
    row("service.type", "LoadBalancer", "Service", "spec type"),
    *metadata("service", "Service"),
    row("service.clusterIP", "None", "Service", "spec clusterIP"),
    row("service.loadBalancerClass", "x/y", "Service", "spec loadBalancerClass"),
    row("service.loadBalancerSourceRanges", ["192.0.2.0/24"], "Service", "spec loadBalancerSourceRanges"),
    row("service.externalTrafficPolicy", "Local", "Service", "spec externalTrafficPolicy"),
    row("service.internalTrafficPolicy", "Local", "Service", "spec internalTrafficPolicy"),
    row("service.ipFamilyPolicy", "PreferDualStack", "Service", "spec ipFamilyPolicy"),
    row("service.ipFamilies", ["IPv6"], "Service", "spec ipFamilies"),
    row("service.publishNotReadyAddresses", True, "Service", "spec publishNotReadyAddresses"),
    row("adminService.enabled", False, f"Service/{NAME}-admin", "kind", None),
    *metadata("adminService", f"Service/{NAME}-admin"),
    row("startupProbe", None, "Deployment", f"{CONTAINER} startupProbe"),
    row("livenessProbe", {"httpGet": {"scheme": "HTTPS"}}, "Deployment", f"{CONTAINER} livenessProbe httpGet scheme", "HTTPS"),
    row("livenessProbe", {"httpGet": None, "tcpSocket": {"port": 1}}, "Deployment", f"{CONTAINER} livenessProbe httpGet", None),
    row("readinessProbe", {"periodSeconds": 7}, "Deployment", f"{CONTAINER} readinessProbe periodSeconds", 7),
    row("lifecycle", {"preStop": {"exec": None, "sleep": {"seconds": 9}}}, "Deployment", f"{CONTAINER} lifecycle",
        {"preStop": {"sleep": {"seconds": 9}}}),
    row("terminationGracePeriodSeconds", 99, "Deployment", f"{POD} terminationGracePeriodSeconds"),
    row("resources", {"limits": {"cpu": 2}}, "Deployment", f"{CONTAINER} resources limits cpu", 2),
    row("seccomp.type", "Localhost", "Deployment", f"{CONTAINER} securityContext seccompProfile",
        {"type": "Localhost", "localhostProfile": "doorbell.json"}),
    row("seccomp.localhostProfile", "p.json", "Deployment", f"{CONTAINER} securityContext seccompProfile localhostProfile",
        context={"seccomp": {"type": "Localhost"}}),
    row("podSecurityContext", {"fsGroup": 7}, "Deployment", f"{POD} securityContext fsGroup", 7),
    row("securityContext", {"runAsUser": 7}, "Deployment", f"{CONTAINER} securityContext runAsUser", 7),
    row("securityContext", {"seccompProfile": {"type": "Unconfined"}}, "Deployment",
        f"{CONTAINER} securityContext seccompProfile", {"type": "Unconfined"}, {"seccomp": {"type": "Localhost"}}),
    row("serviceAccount.create", False, "ServiceAccount", "kind", None),
    row("serviceAccount.create", False, "Deployment", f"{POD} serviceAccountName", "default"),
    row("serviceAccount.name", "robot", "Deployment", f"{POD} serviceAccountName"),
    row("serviceAccount.name", "robot", "ServiceAccount", "metadata name"),
    row("serviceAccount.name", "robot", "Deployment", f"{POD} serviceAccountName", context={"serviceAccount": {"create": False}}),
    row("serviceAccount.automount", True, "Deployment", f"{POD} automountServiceAccountToken"),
    row("serviceAccount.automount", True, "ServiceAccount", "automountServiceAccountToken"),
    *metadata("serviceAccount", "ServiceAccount"),
    *metadata("", "Deployment"),
    *metadata("", "DaemonSet", DAEMON),
    row("podLabels", {"own": "x"}, "Deployment", "spec template metadata labels own", "x"),
    row("podAnnotations", {"own": "x"}, "Deployment", "spec template metadata annotations own", "x"),
    row("updateStrategy", {"type": "Recreate"}, "Deployment", "spec strategy"),
    row("updateStrategy", {"type": "OnDelete"}, "DaemonSet", "spec updateStrategy", context=DAEMON),
    row("minReadySeconds", 3, "Deployment", "spec minReadySeconds"),
    row("revisionHistoryLimit", 3, "Deployment", "spec revisionHistoryLimit"),
    row("hostNetwork", True, "Deployment", f"{POD} hostNetwork"),
    row("hostNetwork", True, "Deployment", f"{POD} dnsPolicy", "ClusterFirstWithHostNet"),
    row("dnsPolicy", "Default", "Deployment", f"{POD} dnsPolicy"),
    row("dnsConfig", {"searches": ["a"]}, "Deployment", f"{POD} dnsConfig"),
    row("hostAliases", [{"ip": "192.0.2.1"}], "Deployment", f"{POD} hostAliases"),
    row("nodeSelector", {"a": "b"}, "Deployment", f"{POD} nodeSelector"),
    row("tolerations", [{"operator": "Exists"}], "Deployment", f"{POD} tolerations"),
    row("affinity", {"nodeAffinity": {}}, "Deployment", f"{POD} affinity"),
    row("topologySpreadConstraints", [{"topologyKey": "z"}], "Deployment", f"{POD} topologySpreadConstraints 0 labelSelector matchLabels",
        {"app.kubernetes.io/name": "doorbell", "app.kubernetes.io/instance": "test"}),
    row("topologySpreadConstraints", [{"labelSelector": {"matchLabels": {"a": "b"}}}], "Deployment",
        f"{POD} topologySpreadConstraints 0 labelSelector", {"matchLabels": {"a": "b"}}),
    row("priorityClassName", "high", "Deployment", f"{POD} priorityClassName"),
    row("runtimeClassName", "gvisor", "Deployment", f"{POD} runtimeClassName"),
    row("podDisruptionBudget.enabled", False, "PodDisruptionBudget", "kind", None),
    row("podDisruptionBudget.minAvailable", "50%", "PodDisruptionBudget", "spec minAvailable"),
    row("podDisruptionBudget.minAvailable", 0, "PodDisruptionBudget", "spec maxUnavailable", None),
    row("podDisruptionBudget.maxUnavailable", 2, "PodDisruptionBudget", "spec maxUnavailable"),
    row("podDisruptionBudget.unhealthyPodEvictionPolicy", "AlwaysAllow", "PodDisruptionBudget", "spec unhealthyPodEvictionPolicy"),
    *metadata("podDisruptionBudget", "PodDisruptionBudget"),
    row("networkPolicy.enabled", True, "NetworkPolicy", "spec policyTypes", ["Ingress"]),
    row("networkPolicy.probesFrom", PEER, "NetworkPolicy", "spec ingress 0 from", context=CLOSED),
    row("networkPolicy.adminFrom", PEER, "NetworkPolicy", "spec ingress 1 from", context=CLOSED),
    row("networkPolicy.extraIngress", RULE, "NetworkPolicy", "spec ingress 2", RULE[0], CLOSED),
    row("networkPolicy.egress.enabled", True, "NetworkPolicy", "spec policyTypes", ["Ingress", "Egress"], CLOSED),
    row("networkPolicy.egress.rules", RULE, "NetworkPolicy", "spec egress", context={"networkPolicy": {"enabled": True, "egress": {"enabled": True}}}),
    *metadata("networkPolicy", "NetworkPolicy", CLOSED),
    row("serviceMonitor.enabled", True, "ServiceMonitor", "spec selector matchLabels app.kubernetes.io/component", "admin"),
    row("serviceMonitor.namespace", "mon", "ServiceMonitor", "metadata namespace", context=SERVICE),
    row("serviceMonitor.namespace", "mon", "ServiceMonitor", "spec namespaceSelector matchNames", ["default"], SERVICE),
    *metadata("serviceMonitor", "ServiceMonitor", SERVICE),
    row("serviceMonitor.jobLabel", "j", "ServiceMonitor", "spec jobLabel", context=SERVICE),
    row("serviceMonitor.targetLabels", ["t"], "ServiceMonitor", "spec targetLabels", context=SERVICE),
    row("podMonitor.enabled", True, "PodMonitor", "spec podMetricsEndpoints 0 port", "admin"),
    row("podMonitor.namespace", "mon", "PodMonitor", "metadata namespace", context=PODS),
    row("podMonitor.namespace", "mon", "PodMonitor", "spec namespaceSelector matchNames", ["default"], PODS),
    *metadata("podMonitor", "PodMonitor", PODS),
    row("podMonitor.matchLabels", {"app": "x"}, "PodMonitor", "spec selector matchLabels", context=PODS),
    row("podMonitor.jobLabel", "j", "PodMonitor", "spec jobLabel", context=PODS),
    row("podMonitor.podTargetLabels", ["t"], "PodMonitor", "spec podTargetLabels", context=PODS),
    *[
        row(f"{key}.{field}", setting, kind, f"{endpoint} {field}", context=context)
        for key, kind, endpoint, context in (
            ("serviceMonitor", "ServiceMonitor", ENDPOINT, SERVICE),
            ("podMonitor", "PodMonitor", POD_ENDPOINT, PODS),
        )
        for field, setting in (("interval", "7s"), ("scrapeTimeout", "3s"), ("relabelings", RELABELING), ("metricRelabelings", RELABELING))
    ],
    row("prometheusRule.enabled", True, "PrometheusRule", "spec groups", yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())["groups"]),
    row("prometheusRule.namespace", "mon", "PrometheusRule", "metadata namespace", context=RULES),
    *metadata("prometheusRule", "PrometheusRule", RULES),
    row("prometheusRule.disabled", ["DoorbellGone"], "PrometheusRule", "spec groups 0 rules 1 alert", "DoorbellAbsent", RULES),
    row("prometheusRule.extraGroups", [{"name": "g"}], "PrometheusRule", "spec groups 1 name", "g", RULES),
    row("dashboard.enabled", True, f"ConfigMap/{NAME}-dashboard", "data doorbell.json", (DEPLOY / "grafana/doorbell.json").read_text()),
    row("dashboard.enabled", True, f"ConfigMap/{NAME}-dashboard", "metadata labels grafana_dashboard", "1"),
    row("dashboard.namespace", "mon", f"ConfigMap/{NAME}-dashboard", "metadata namespace", context=BOARD),
    *metadata("dashboard", f"ConfigMap/{NAME}-dashboard", BOARD),
    row("extraObjects", [{"kind": "Extra", "metadata": {"name": "{{ .Release.Name }}-x"}}], "Extra", "metadata name", "test-x"),
]
# `global` belongs to other charts; restartOnConfigChange is in `reloads`.
ELSEWHERE = {"global", "restartOnConfigChange"}

REFUSED = [
    ({"kind": "Pod"}, "kind"),
    ({"replica": 1}, "replica"),
    ({"service": {"typ": "NodePort"}}, "typ"),
    ({"image": {"digest": "sha256:1"}}, "digest"),
    ({"podAnnotations": {"a": True}}, "podAnnotations"),
    ({"config": "listener = 1"}, "version = 1"),
    ({"existingConfigMap": "a", "existingConfigSecret": "b"}, "exclude each other"),
    ({"ports": [{"name": "web", "port": 80}]}, "startupProbe uses the port probes"),
    ({"ports": [*port(), *port(port=81)]}, "two ports are named probes"),
    ({"ports": [*port(), {"name": "admin", "port": 81}]}, "two ports are named admin"),
    ({"kind": "DaemonSet", "autoscaling": {"enabled": True}}, "needs kind: Deployment"),
    ({"adminPort": None, "serviceMonitor": {"enabled": True}}, "need adminPort"),
    ({"adminService": {"enabled": False}, "serviceMonitor": {"enabled": True}}, "needs adminService.enabled"),
    ({"kind": "Sidecar", "podMonitor": {"enabled": True}}, "needs podMonitor.matchLabels"),
    ({"prometheusRule": {"enabled": True, "disabled": ["Gone"]}}, "there is no alert Gone"),
]


@functools.cache
def rendered(settings, release):
    command = ["helm", "template", release, CHART, "--kube-version", sys.argv[1], "--values", "-"]
    return subprocess.run(command, input=settings, capture_output=True, text=True, check=False)


def render(settings, release="test"):
    done = rendered(json.dumps(settings), release)
    if done.returncode:
        raise AssertionError(f"{settings} cannot be rendered: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document is not None]


def with_setting(context, value, setting):
    """A copy of the context with this value; `list[].field` sets the list."""
    result = json.loads(json.dumps(context))
    *parents, last = value.partition("[]")[0].split(".")
    place = result
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = setting
    return result


def field(documents, place, path):
    """The field of the first such object; None if there is none."""
    kind, _, name = place.partition("/")
    for document in documents:
        if document["kind"] != kind or (name and document["metadata"]["name"] != name):
            continue
        value = document
        for key in path:
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value
    return None


def check_row(one):
    value, setting, place, path, expected, context = one
    title = f"{value}: {setting!r:.60}: {place} {' '.join(path)}"
    found = field(render(with_setting(context, value, setting)), place, path)
    if found != expected:
        yield f"{title} is {found!r:.200}, expected {expected!r:.200}"
    if field(render(context), place, path) == expected:
        yield f"{title}: has the expected field without the setting, too"


def check_coverage():
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {name for name, _, _ in described.rows(schema, yaml.safe_load((CHART / "values.yaml").read_text()))}
    used = {one[0] for one in ROWS} | ELSEWHERE
    yield from (f"{name}: no row in ROWS" for name in sorted(known - used))
    yield from (f"{name}: not a value of the chart" for name in sorted(used - known))


def check_names():
    for release, expected in (("test", NAME), ("doorbell", "doorbell"), ("my-doorbell", "my-doorbell"), ("a" * 53, f"{'a' * 53}-doo")):
        for document in render({}, release):
            name = document["metadata"]["name"]
            if name not in (expected, f"{expected}-admin"):
                yield f"release {release}: {document['kind']} is named {name}"


def check_reload():
    """A changed configuration must not change the pod, unless asked for."""
    def template(**settings):
        return field(render(settings), "Deployment", ["spec", "template"])

    if template() != template(config=CONFIG):
        yield "a changed configuration restarts the pods"
    if template(restartOnConfigChange=True) == template(restartOnConfigChange=True, config=CONFIG):
        yield "restartOnConfigChange: a changed configuration does not restart the pods"


def check_refusals():
    for settings, reason in REFUSED:
        done = rendered(json.dumps(settings), "test")
        if done.returncode == 0 or reason not in done.stderr:
            yield f"{settings} is not refused because of `{reason}`: {done.stderr[-300:]}"


def check_selector():
    """Labels of users do not change selectors, which are immutable."""
    own = {"app.kubernetes.io/name": "x", "app.kubernetes.io/instance": "x"}
    for document in render({"commonLabels": own, "podLabels": own}):
        if document["metadata"]["labels"]["app.kubernetes.io/name"] != "doorbell":
            yield f"{document['kind']}: commonLabels replace a label of the selector"
        labels = document["spec"]["template"]["metadata"]["labels"] if document["kind"] == "Deployment" else {}
        if "x" in labels.values():
            yield "podLabels replace a label of the selector"


def main():
    checks = [functools.partial(check_row, one) for one in ROWS]
    checks += [check_coverage, check_names, check_reload, check_refusals, check_selector]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        bad = [problem for found in pool.map(lambda check: list(check()), checks) for problem in found]
    print("\n".join([*bad, f"{len(ROWS)} rows, {len(bad)} problems"]))
    sys.exit(1 if bad else 0)


main()
