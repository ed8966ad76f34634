// Package version has the version of the build.
package version

// version is set by the linker: -ldflags "-X github.com/lvm-storage/lvm-operator/internal/version.version=v5.1.0".
var version = "v0.0.0-dev"

// String returns the version of the build.
func String() string {
	return version
}
