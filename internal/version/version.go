// Package version has the version of the build.
package version

import "crypto/fips140"

// Version is set by the linker: -ldflags "-X github.com/lvm-storage/lvm-operator/internal/version.Version=1.2.3".
var Version = "0.0.0-dev"

// Full returns the version, and that of Go's cryptographic module (FIPS 140-3): v1.0.0 for example, or latest if it is
// that of the Go release.
func Full() string {
	mode := "off"
	if fips140.Enabled() {
		mode = "on"
	}
	return Version + ", FIPS mode " + mode + ", Go Cryptographic Module " + fips140.Version()
}
