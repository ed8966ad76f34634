// Package redact removes secrets from collected data. It replaces them with a mark, so that a reader sees that
// something was there.
package redact

import (
	"bytes"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mark replaces a secret.
const Mark = "REDACTED"

// pattern matches a kind of secret in a text. The first group is kept.
type pattern struct {
	// hint is a text in lower case without which the expression is not tried.
	hint       string
	expression *regexp.Regexp
	with       string
}

var patterns = []pattern{
	// JSON Web Tokens of ServiceAccounts.
	{"eyj", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), Mark},
	{"sha256~", regexp.MustCompile(`sha256~[A-Za-z0-9_-]{20,}`), Mark},
	{"bearer ", regexp.MustCompile(`(?i)(bearer )[A-Za-z0-9._~+/=-]{8,}`), "${1}" + Mark},
	{"private key",
		regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Mark},
	// The same in base64, in the data of an object: "-----BEGIN " of a key.
	{"ls0tls1crudjt",
		regexp.MustCompile(
			`LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,24}(?:UFJJVkFURSBLRVkt|BSSVZBVEUgS0VZL|QUklWQVRFIEtFWS)[A-Za-z0-9+/=]*`),
		Mark},
	// The key of an encrypted mapping, which follows the cipher in the device-mapper table (dm-crypt).
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

// Text returns a text without anything that looks like a token, a password, a private key or the key of an encrypted
// mapping.
func Text(content []byte) []byte {
	lower := bytes.ToLower(content)
	for _, p := range patterns {
		if bytes.Contains(lower, []byte(p.hint)) {
			content = p.expression.ReplaceAll(content, []byte(p.with))
		}
	}
	return content
}

// public lists the keys of Secrets with certificates, which are not confidential.
var public = map[string]bool{"tls.crt": true, "ca.crt": true, "service-ca.crt": true}

// Object removes secrets from an object. In a Secret it sets all values except certificates to empty ones. It also
// removes managedFields, which are not useful to a reader. It modifies the object.
func Object(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if o.GroupVersionKind().Group == "" && o.GetKind() == "Secret" {
		secret(o)
		return
	}
	values(o.Object)
}

func secret(o *unstructured.Unstructured) {
	// This annotation may repeat the data.
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

// values replaces the values of environment variables and map entries that have the name of a secret.
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
