// Package version has the version of the build.
package version

// Version is set by the linker: -ldflags "-X github.com/lvm-storage/lvm-operator/internal/version.Version=1.2.3".
var Version = "0.0.0-dev"
