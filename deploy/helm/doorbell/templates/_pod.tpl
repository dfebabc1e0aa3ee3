{{/* The container and its volumes, for the workload of this chart and for pods of other charts. */}}

{{- define "doorbell.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "doorbell.securityContext" -}}
{{- $seccomp := dict "type" .Values.seccomp.type -}}
{{- if eq .Values.seccomp.type "Localhost" }}{{ $_ := set $seccomp "localhostProfile" .Values.seccomp.localhostProfile }}{{ end -}}
{{- $context := deepCopy .Values.securityContext -}}
{{- if not (hasKey $context "seccompProfile") }}{{ $_ := set $context "seccompProfile" $seccomp }}{{ end -}}
{{- toYaml $context -}}
{{- end -}}

{{/*
The container. A chart that depends on this one and sets `doorbell.kind: Sidecar` in its values adds it
to its pods as a native sidecar:

  initContainers:
    {{- include "doorbell.container" .Subcharts.doorbell | nindent 4 }}
  volumes:
    {{- include "doorbell.volumes" .Subcharts.doorbell | nindent 4 }}
*/}}
{{- define "doorbell.container" -}}
- name: doorbell
  image: {{ include "doorbell.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- if eq .Values.kind "Sidecar" }}
  restartPolicy: Always
  {{- end }}
  args: {{- concat (list "serve" "-c" "/etc/doorbell/doorbell.toml") .Values.extraArgs | toYaml | nindent 4 }}
  {{- with .Values.extraEnv }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.envFrom }}
  envFrom: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- range .Values.ports }}
    - name: {{ .name }}
      containerPort: {{ .port }}
      protocol: {{ .protocol | default "TCP" }}
      {{- with .hostPort }}
      hostPort: {{ . }}
      {{- end }}
    {{- end }}
    {{- with .Values.adminPort }}
    - name: admin
      containerPort: {{ . }}
      protocol: TCP
    {{- end }}
  {{- range $name := list "startupProbe" "livenessProbe" "readinessProbe" "lifecycle" "resources" }}
  {{- with index $.Values $name }}
  {{ $name }}: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  securityContext: {{- include "doorbell.securityContext" . | nindent 4 }}
  volumeMounts:
    - name: doorbell-config
      mountPath: /etc/doorbell
      readOnly: true
    - name: doorbell-run
      mountPath: /run/doorbell
    {{- range $index, $secret := .Values.existingSecrets }}
    - name: doorbell-secret-{{ $index }}
      mountPath: {{ $secret.mountPath }}
      readOnly: true
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* doorbell watches the mounted folders. The kubelet updates them in place, so neither a changed
ConfigMap nor a changed Secret needs new pods. */}}
{{- define "doorbell.volumes" -}}
- name: doorbell-config
  {{- if .Values.existingConfigSecret }}
  secret:
    secretName: {{ .Values.existingConfigSecret }}
    defaultMode: 0440
  {{- else }}
  configMap:
    name: {{ .Values.existingConfigMap | default (include "doorbell.fullname" .) }}
  {{- end }}
- name: doorbell-run
  emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- range $index, $secret := .Values.existingSecrets }}
- name: doorbell-secret-{{ $index }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    {{- with $secret.items }}
    items: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if $secret.optional }}
    optional: true
    {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The fields of the pod that are lists or objects and have the name of their value. */}}
{{- define "doorbell.podFields" -}}
{{- range $name := list "imagePullSecrets" "dnsConfig" "hostAliases" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $name }}
{{ $name }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range $name := list "priorityClassName" "runtimeClassName" }}
{{- with index $.Values $name }}
{{ $name }}: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels: {{- include "doorbell.selector" $ | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}
