package redact

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
	key   = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIPLANTED\n-----END EC PRIVATE KEY-----"
)

func TestTextTakesSecretsOut(t *testing.T) {
	tests := map[string]struct{ text, planted, stays string }{
		"token":            {"authorization: " + token + " end", token, "end"},
		"bearer":           {"Authorization: Bearer abcDEF123456 x", "abcDEF123456", "Authorization: Bearer "},
		"openshift token":  {"oc login --token=sha256~aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sha256~aaaaaaaa", "oc login"},
		"private key":      {"a\n" + key + "\nb", "PLANTED", "b"},
		"private key, cut": {"a\n" + key[:45], "MHcC", "a"},
		"key in base64": {"tls.key: " + base64.StdEncoding.EncodeToString([]byte(key)),
			base64.StdEncoding.EncodeToString([]byte(key))[40:], "tls.key"},
		"key of a mapping": {"luks-1: 0 2048 crypt aes-xts-plain64 00112233445566778899aabbccddeeff00 0 8:16 4096",
			"0011223344556677", "0 8:16 4096"},
		"password in an URL": {"https://user:hunter22@host/path", "hunter22", "@host/path"},
		"password":           {`{"password": "hunter22", "a": 1}`, "hunter22", `"a": 1`},
		"passphrase":         {"LUKS_PASSPHRASE=hunter22 next", "hunter22", "next"},
		"client secret":      {"client_secret=abc123 next", "abc123", "next"},
		"token in a log":     {`msg="x" refresh_token=abcdefabcdefabcdef next`, "abcdefabcdefabcdef", "next"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := string(Text([]byte(test.text)))
			if strings.Contains(got, test.planted) || !strings.Contains(got, Mark) ||
				!strings.Contains(got, test.stays) {
				t.Errorf("got %q", got)
			}
			if again := string(Text([]byte(got))); strings.Count(again, Mark) != strings.Count(got, Mark) {
				t.Errorf("the second time: %q", again)
			}
		})
	}
}

func TestTextLeavesTheRest(t *testing.T) {
	for _, text := range []string{
		"vg1-lv1: 0 2097152 linear 254:1 2048",
		"luks-1: 0 2048 crypt aes-xts-plain64 :64:logon:cryptsetup:x-d0 0 8:16 4096",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"image: registry.example.com:5000/a@sha256:0123456789abcdef",
		"secretName: lvms-operator-webhook-server-cert", "automountServiceAccountToken: false",
	} {
		if got := Text([]byte(text)); !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestObjectKeepsOnlyNamesKeysAndCertificatesOfASecret(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "s", "managedFields": []any{map[string]any{"manager": "m"}},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "PLANTED", "a": "b"}},
		"data":       map[string]any{"tls.crt": "Q0VSVA==", "tls.key": "UExBTlRFRA=="},
		"stringData": map[string]any{"x": "PLANTED"},
	}}
	for range 2 {
		Object(o)
	}
	content, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []string{"PLANTED", "UExBTlRFRA", "managedFields"} {
		if bytes.Contains(content, []byte(planted)) {
			t.Errorf("%s is in %s", planted, content)
		}
	}
	for _, want := range []string{`"tls.crt":"Q0VSVA=="`, `"tls.key":""`, `"x":""`, `"a":"b"`} {
		if !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s is not in %s", want, content)
		}
	}
}

func TestObjectMarksSecretValues(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"containers": []any{map[string]any{"env": []any{
			map[string]any{"name": "DB_PASSWORD", "value": "PLANTED"},
			map[string]any{"name": "NODE_NAME", "value": "node1"},
			map[string]any{"name": "API_TOKEN", "valueFrom": map[string]any{
				"secretKeyRef": map[string]any{"name": "s", "key": "k"}}},
		}}}},
		"data": map[string]any{"api_key": "PLANTED", "other": "kept"},
	}}
	Object(o)
	content, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("PLANTED")) || !bytes.Contains(content, []byte("node1")) ||
		!bytes.Contains(content, []byte("secretKeyRef")) || !bytes.Contains(content, []byte("kept")) {
		t.Errorf("got %s", content)
	}
}
