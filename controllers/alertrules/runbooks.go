package alertrules

import (
	"errors"
	"net/url"
	"strings"

	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

// DefaultRunbooks is the address of the product's runbooks.
const DefaultRunbooks = rules.Runbooks

// Runbooks returns the prefix of runbook_url in the alerts: the address with a slash at its end, or the default if the
// address is empty. The error does not repeat the address, which may contain a password.
func Runbooks(address string) (string, error) {
	if address == "" {
		return DefaultRunbooks, nil
	}
	parsed, err := url.Parse(address)
	if err != nil || !isBase(parsed) {
		return "", errors.New("invalid URL: must begin with https:// or http://, and have no user, query or " +
			"fragment")
	}
	return strings.TrimSuffix(address, "/") + "/", nil
}

// isBase reports whether the name of a runbook can be appended to the address.
func isBase(address *url.URL) bool {
	plain := address.User == nil && address.RawQuery == "" && !address.ForceQuery && address.Fragment == ""
	return plain && address.Host != "" && (address.Scheme == "https" || address.Scheme == "http")
}
