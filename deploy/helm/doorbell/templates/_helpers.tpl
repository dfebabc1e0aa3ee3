{{- define "doorbell.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "doorbell.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "doorbell.labels" -}}
{{ include "doorbell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "doorbell.seccomp" -}}
type: {{ .Values.seccomp.type }}
{{- if eq .Values.seccomp.type "Localhost" }}
localhostProfile: {{ .Values.seccomp.localhostProfile }}
{{- end }}
{{- end -}}

{{/*
The container. A chart that depends on this one and sets `doorbell.kind: Sidecar` in its values adds it
to its pods as a native sidecar:

  initContainers:
    {{- include "doorbell.container" .Subcharts.doorbell | nindent 4 }}
      restartPolicy: Always
  volumes:
    {{- include "doorbell.volumes" .Subcharts.doorbell | nindent 4 }}
*/}}
{{- define "doorbell.container" -}}
- name: doorbell
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: ["serve", "-c", "/etc/doorbell/doorbell.toml"]
  {{- with .Values.env }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- range .Values.ports }}
    - name: {{ .name }}
      containerPort: {{ .port }}
    {{- end }}
  livenessProbe:
    httpGet: { path: /livez, port: {{ (index .Values.ports 0).name }} }
    periodSeconds: 10
  readinessProbe:
    httpGet: { path: /readyz, port: {{ (index .Values.ports 0).name }} }
    periodSeconds: 2
    failureThreshold: 1
  startupProbe:
    httpGet: { path: /livez, port: {{ (index .Values.ports 0).name }} }
    periodSeconds: 1
    failureThreshold: 30
  lifecycle:
    preStop:
      exec:
        command: ["/doorbell", "prestop", "--reason", "the pod is deleted"]
  resources: {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: [ALL] }
    seccompProfile: {{- include "doorbell.seccomp" . | nindent 6 }}
  volumeMounts:
    - name: doorbell-config
      mountPath: /etc/doorbell
      readOnly: true
    - name: doorbell-run
      mountPath: /run/doorbell
{{- end -}}

{{- define "doorbell.volumes" -}}
- name: doorbell-config
  configMap:
    name: {{ include "doorbell.name" . }}
- name: doorbell-run
  emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- end -}}
