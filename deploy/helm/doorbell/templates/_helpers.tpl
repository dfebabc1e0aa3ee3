{{/* Names, labels and the metadata of all objects. */}}

{{- define "doorbell.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects. At most 57 characters, which leaves room for the suffix of the admin Service. */}}
{{- define "doorbell.fullname" -}}
{{- $name := include "doorbell.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 57 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 57 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 57 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "doorbell.serviceAccountName" -}}
{{- $own := ternary (include "doorbell.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $own -}}
{{- end -}}

{{- define "doorbell.selector" -}}
app.kubernetes.io/name: {{ include "doorbell.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "doorbell.labels" -}}
{{ include "doorbell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
The metadata of an object. `of` has the values `labels`, `annotations` and `namespace` of the object;
`suffix` is appended to the name, `component` becomes a label. The labels of the selector always win.
*/}}
{{- define "doorbell.metadata" -}}
{{- $own := include "doorbell.labels" .root | fromYaml -}}
{{- with .component }}{{ $_ := set $own "app.kubernetes.io/component" . }}{{ end -}}
{{- $annotations := merge dict (.of.annotations | default dict) .root.Values.commonAnnotations -}}
name: {{ include "doorbell.fullname" .root }}{{ .suffix }}
namespace: {{ .of.namespace | default .root.Release.Namespace }}
labels: {{- merge $own (.of.labels | default dict) .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Refuses combinations of values without a meaning. */}}
{{- define "doorbell.validate" -}}
{{- $v := .Values -}}
{{- if and $v.existingConfigMap $v.existingConfigSecret -}}
{{- fail "existingConfigMap and existingConfigSecret exclude each other" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (ne $v.kind "Deployment") -}}
{{- fail "autoscaling needs kind: Deployment" -}}
{{- end -}}
{{- $names := ternary (list "admin") list (not (not $v.adminPort)) -}}
{{- range $v.ports -}}
{{- if has .name $names -}}
{{- fail (printf "two ports are named %s" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range $key := list "startupProbe" "livenessProbe" "readinessProbe" -}}
{{- range $action := pick (index $v $key | default dict) "httpGet" "tcpSocket" -}}
{{- if and (kindIs "string" .port) (not (has .port $names)) -}}
{{- fail (printf "%s uses the port %s, which is not in ports" $key .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $monitored := or $v.serviceMonitor.enabled $v.podMonitor.enabled -}}
{{- if and $monitored (not $v.adminPort) -}}
{{- fail "serviceMonitor and podMonitor need adminPort" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled (or (eq $v.kind "Sidecar") (not $v.adminService.enabled)) -}}
{{- fail "serviceMonitor needs adminService.enabled and no sidecar; podMonitor needs neither" -}}
{{- end -}}
{{- if and $v.podMonitor.enabled (eq $v.kind "Sidecar") (not $v.podMonitor.matchLabels) -}}
{{- fail "podMonitor of a sidecar needs podMonitor.matchLabels, the labels of the pods of the other chart" -}}
{{- end -}}
{{- end -}}
