package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// An in-toto statement with SLSA provenance: https://slsa.dev/spec/v1.0/provenance. It has no time and no name of the
// machine, so that it is reproducible. It is not signed: the builder of a release does that.

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type provenance struct {
	Definition buildDefinition `json:"buildDefinition"`
	Run        runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType    string            `json:"buildType"`
	External     map[string]string `json:"externalParameters"`
	Dependencies []resource        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

type resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const builder = project + "/blob/main/hack/image"

func newProvenance(o options, digest v1.Hash, c components) (statement, error) {
	dependencies, err := resolvedDependencies(o, c)
	if err != nil {
		return statement{}, err
	}
	s := statement{
		Type:          "https://in-toto.io/Statement/v1",
		Subject:       []resource{{Name: o.title, Digest: map[string]string{digest.Algorithm: digest.Hex}}},
		PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: provenance{Definition: buildDefinition{
			BuildType:    builder + "@v1",
			External:     map[string]string{"version": o.version, "release": o.release, "arch": o.arch},
			Dependencies: dependencies,
		}},
	}
	s.Predicate.Run.Builder.ID = builder
	return s, nil
}

func resolvedDependencies(o options, c components) ([]resource, error) {
	var found []resource
	if o.revision != "" {
		found = append(found, resource{Name: c.main.path, URI: "git+" + project,
			Digest: map[string]string{"gitCommit": o.revision}})
	}
	found = append(found, resource{Name: "go", URI: c.standardLibrary().purl()})
	for _, p := range c.packages {
		found = append(found, resource{Name: p.Name, URI: p.purl(c.distribution),
			Digest: map[string]string{"sha256": p.SHA256}})
	}
	modules := c.modules
	seen := map[string]bool{}
	if c.console != nil {
		modules = slices.Concat(c.modules, c.console.modules)
	}
	for _, m := range modules {
		if seen[m.purl()] {
			continue
		}
		seen[m.purl()] = true
		r := resource{Name: m.path, URI: m.purl()}
		if m.sum != "" {
			sum, err := dirHash(m.sum)
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", m.path, err)
			}
			r.Digest = map[string]string{"dirHash": sum}
			r.Annotations = map[string]string{"goSum": m.sum}
		}
		found = append(found, r)
	}
	if c.console == nil {
		return found, nil
	}
	for _, p := range c.console.npm {
		sum, err := fromBase64(p.Integrity, "sha512-")
		if err != nil {
			return nil, fmt.Errorf("npm package %s: %w", p.Name, err)
		}
		found = append(found, resource{Name: p.Name, URI: p.purl(), Digest: map[string]string{"sha512": sum}})
	}
	return found, nil
}

// dirHash returns the hash of go.sum in the format of in-toto.
func dirHash(sum string) (string, error) { return fromBase64(sum, "h1:") }

// fromBase64 returns a hash in hexadecimal digits, the format of in-toto.
func fromBase64(sum, kind string) (string, error) {
	encoded, found := strings.CutPrefix(sum, kind)
	if !found {
		return "", fmt.Errorf("its sum %q is none of %s", sum, kind)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("its sum %q: %w", sum, err)
	}
	return hex.EncodeToString(raw), nil
}
