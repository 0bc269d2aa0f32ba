{{- define "gateway.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* One line of TOML: text, numbers, truth values and lists of them are written as in JSON. */}}
{{- define "gateway.line" -}}
{{ .name }} = {{ if kindIs "float64" .value }}{{ int64 .value }}{{ else }}{{ toJson .value }}{{ end }}
{{- end }}
