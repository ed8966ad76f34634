// Package redact takes secrets out of what is collected. What it takes out it replaces by a mark, so that a reader sees
// that something was there.
package redact

import (
	"bytes"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mark stands where a secret was.
const Mark = "REDACTED"

// pattern is a kind of secret in a text. The first group stays.
type pattern struct {
	// hint is what a text must have somewhere for the expression to be tried, in lower case.
	hint       string
	expression *regexp.Regexp
	with       string
}

var patterns = []pattern{
	// JSON Web Tokens, as ServiceAccounts have them.
	{"eyj", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), Mark},
	{"sha256~", regexp.MustCompile(`sha256~[A-Za-z0-9_-]{20,}`), Mark},
	{"bearer ", regexp.MustCompile(`(?i)(bearer )[A-Za-z0-9._~+/=-]{8,}`), "${1}" + Mark},
	{"private key",
		regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Mark},
	// The same as base64, in the data of an object: "-----BEGIN " of a key that follows.
	{"ls0tls1crudjt",
		regexp.MustCompile(
			`LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,24}(?:UFJJVkFURSBLRVkt|BSSVZBVEUgS0VZL|QUklWQVRFIEtFWS)[A-Za-z0-9+/=]*`),
		Mark},
	// The key of an encrypted mapping, as the table of device-mapper has it after the cipher (dm-crypt).
	{"crypt ", regexp.MustCompile(`(\bcrypt [^\s:]\S* )(?:[0-9a-fA-F]{16,})`), "${1}" + Mark},
	{"://", regexp.MustCompile(`(://[^/\s:@"']+:)[^/\s@"']+(@)`), "${1}" + Mark + "${2}"},
	{"pass", regexp.MustCompile(`(?i)(\b[\w-]*(?:password|passwd|passphrase)["']?\s*[:=]\s*["']?)[^\s"',;&]+`),
		"${1}" + Mark},
	{"secret",
		regexp.MustCompile(
			`(?i)(\b[\w-]*(?:secret[_-]?(?:access[_-]?)?key|client[_-]?secret)["']?\s*[:=]\s*["']?)[^\s"',;&]+`),
		"${1}" + Mark},
	{"token", regexp.MustCompile(`(?i)(\b[\w-]*token["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=-]{16,}`), "${1}" + Mark},
}

// Text returns a text without what looks like a token, a password, a private key or the key of an encrypted mapping.
func Text(content []byte) []byte {
	lower := bytes.ToLower(content)
	for _, p := range patterns {
		if bytes.Contains(lower, []byte(p.hint)) {
			content = p.expression.ReplaceAll(content, []byte(p.with))
		}
	}
	return content
}

// public are keys of Secrets that hold certificates, which anybody may see.
var public = map[string]bool{"tls.crt": true, "ca.crt": true, "service-ca.crt": true}

// Object takes secrets out of an object: of a Secret all values but certificates stay behind as empty ones.
// managedFields, which are of no use to a reader, go too. The object is changed.
func Object(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if o.GroupVersionKind().Group == "" && o.GetKind() == "Secret" {
		secret(o)
		return
	}
	values(o.Object)
}

func secret(o *unstructured.Unstructured) {
	// It may hold the data once more.
	annotations := o.GetAnnotations()
	for name := range annotations {
		if strings.Contains(name, "last-applied") {
			annotations[name] = Mark
		}
	}
	o.SetAnnotations(annotations)
	for _, field := range []string{"data", "stringData"} {
		data, _, _ := unstructured.NestedMap(o.Object, field)
		for key := range data {
			if !public[key] {
				data[key] = ""
			}
		}
		if data != nil {
			o.Object[field] = data
		}
	}
}

var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|token$|secret$|secret_?key|access_?key|api_?key)`)

// values marks the values of what has the name of a secret: environment variables, and entries of maps.
func values(node any) {
	switch v := node.(type) {
	case []any:
		for _, item := range v {
			values(item)
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok && secretName.MatchString(name) {
			if _, ok := v["value"].(string); ok {
				v["value"] = Mark
			}
		}
		for key, value := range v {
			if text, ok := value.(string); ok && secretName.MatchString(key) && text != "" {
				v[key] = Mark
				continue
			}
			values(value)
		}
	}
}
