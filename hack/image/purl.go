package main

import (
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Package URLs, with which scanners identify a component: https://github.com/package-url/purl-spec.

func (p debianPackage) purl(distribution string) string {
	return fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", escape(p.Name), escape(p.Version),
		escape(p.Architecture), escape(distribution))
}

// Names of the type golang are in lower case.
func (m goModule) purl() string {
	segments := strings.Split(strings.ToLower(m.path), "/")
	for i := range segments {
		segments[i] = escape(segments[i])
	}
	purl := "pkg:golang/" + strings.Join(segments, "/")
	if m.version != "" {
		purl += "@" + escape(m.version)
	}
	if m.subpath != "" {
		purl += "#" + m.subpath
	}
	return purl
}

// A scope is a namespace: its "@" is encoded and its slash is not.
func (p npmPackage) purl() string {
	segments := strings.Split(p.Name, "/")
	for i := range segments {
		segments[i] = escape(segments[i])
	}
	return "pkg:npm/" + strings.Join(segments, "/") + "@" + escape(p.Version)
}

func imagePurl(title, arch string, digest v1.Hash) string {
	return fmt.Sprintf("pkg:oci/%s@%s?arch=%s", escape(title), escape(digest.String()), escape(arch))
}

// escape encodes all characters except those that the specification excludes: letters, digits, ".-_~" and the colon.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(".-_~:", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
