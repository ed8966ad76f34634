package agentca

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const day = 24 * time.Hour

// renewal is when the first authority is to be replaced.
var renewal = start.Add(validity - validity/3 + time.Hour)

func at(t *testing.T, s state, now time.Time, want string) state {
	t.Helper()
	after, because, err := s.rotate(now)
	if err != nil {
		t.Fatal(err)
	}
	if (want == "") != (because == "") || !strings.Contains(because, want) {
		t.Fatalf("at %s: because %q, want %q", now, because, want)
	}
	if _, again, err := after.rotate(now); again != "" || err != nil {
		t.Errorf("at %s: a second call changes it again: %q, %v", now, again, err)
	}
	return after
}

// signedBy returns a certificate that the state signs.
func signedBy(t *testing.T, s state, now time.Time) *x509.Certificate {
	t.Helper()
	authority, err := pki.LoadAuthority(s.signing)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Request{Name: "x", Now: now, Validity: CertificateValidity})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Leaf
}

func trusts(s state, certificate *x509.Certificate, now time.Time) bool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.trusted())
	_, err := certificate.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// TestARotationNeverInterrupts: each certificate is trusted until its end by every peer whose authorities are at most a
// day old.
func TestARotationNeverInterrupts(t *testing.T) {
	current, _, err := state{}.rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	type issued struct {
		certificate *x509.Certificate
		end         time.Time
	}
	var valid []issued
	signers := map[string]bool{}
	const step = 12 * time.Hour
	history := []state{current}
	for now := start; now.Before(start.Add(2 * validity)); now = now.Add(step) {
		if current, _, err = current.rotate(now); err != nil {
			t.Fatal(err)
		}
		history = append(history, current)
		before := history[max(0, len(history)-3)] // that of a day ago
		signers[string(current.signing.Certificate)] = true
		valid = append(valid, issued{signedBy(t, current, now), now.Add(CertificateValidity)})
		for _, c := range valid {
			if now.Before(c.end) && (!trusts(current, c.certificate, now) || !trusts(before, c.certificate, now)) {
				t.Fatalf("at %s: a certificate that is valid until %s is not trusted", now, c.end)
			}
		}
		valid = valid[max(0, len(valid)-8):]
		if n := bytes.Count(current.trusted(), []byte("BEGIN CERTIFICATE")); n > 2 {
			t.Fatalf("at %s: %d authorities are trusted", now, n)
		}
	}
	if len(signers) < 3 {
		t.Errorf("only %d authorities signed in two years", len(signers))
	}
}

func TestTheStepsOfARotation(t *testing.T) {
	first := at(t, state{}, start, "no authority yet")
	at(t, first, start.Add(30*day), "")
	second := at(t, first, renewal, "expires soon")
	if !bytes.Equal(second.signing.Certificate, first.signing.Certificate) || len(second.next.Certificate) == 0 {
		t.Error("the new authority signs before it was distributed")
	}
	at(t, second, renewal.Add(distribution-time.Minute), "")
	third := at(t, second, renewal.Add(distribution), "was distributed")
	if !bytes.Equal(third.signing.Certificate, second.next.Certificate) ||
		!bytes.Equal(third.previous, first.signing.Certificate) || len(third.next.Certificate) > 0 {
		t.Error("the new authority does not sign, or the previous one is not trusted")
	}
	at(t, third, renewal.Add(distribution+CertificateValidity), "")
	last := at(t, third, renewal.Add(distribution+CertificateValidity+2*time.Hour), "have expired")
	if !bytes.Equal(last.trusted(), third.signing.Certificate) {
		t.Error("the previous authority is still trusted")
	}
}

func TestAStateThatIsNotUsableIsReplaced(t *testing.T) {
	first := at(t, state{}, start, "no authority yet")
	other := at(t, state{}, start, "no authority yet")
	leaf, err := pki.SelfSigned(pki.Request{Name: "x", Now: start, Validity: validity})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		state state
		now   time.Time
		want  string
	}{
		"damaged":         {state{signing: pki.Pair{Certificate: []byte("x"), Key: []byte("y")}}, start, "certificate authority"},
		"key of another":  {state{signing: pki.Pair{Certificate: first.signing.Certificate, Key: other.signing.Key}}, start, "certificate authority"},
		"no authority":    {state{signing: leaf}, start, "certificate authority"},
		"expired":         {first, start.Add(validity), "valid from"},
		"not valid yet":   {first, start.Add(-2 * time.Hour), "valid from"},
		"a damaged next":  {state{signing: first.signing, next: pki.Pair{Certificate: []byte("x")}}, start, "next authority is not valid"},
		"still valid":     {first, start.Add(validity / 2), ""},
		"a future use":    {first, start.Add(validity - CertificateValidity + time.Minute), "valid from"},
		"a next too soon": {state{signing: first.signing, next: other.signing}, start, ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := at(t, tt.state, tt.now, tt.want)
			if _, err := pki.LoadAuthority(after.signing); err != nil {
				t.Error(err)
			}
		})
	}
}
