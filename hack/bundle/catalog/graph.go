package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "lvms-operator"
	// candidate is the channel with every version, including prereleases.
	candidate = "candidate"
)

// bundle has the properties of a bundle that determine the channels.
type bundle struct {
	name, skipRange string
	version         semver.Version
}

// parseBundle parses the output of opm for a bundle (schema olm.bundle).
func parseBundle(data []byte) (bundle, error) {
	var rendered struct {
		Schema, Name, Package string
		Properties            []struct {
			Type  string
			Value json.RawMessage
		}
	}
	if err := yaml.Unmarshal(data, &rendered); err != nil {
		return bundle{}, err
	}
	if rendered.Schema != "olm.bundle" || rendered.Package != packageName {
		return bundle{}, fmt.Errorf("it is a %s of the package %s, wanted an olm.bundle of %s", rendered.Schema,
			rendered.Package, packageName)
	}
	b := bundle{name: rendered.Name}
	version := ""
	for _, property := range rendered.Properties {
		var value struct {
			Version     string
			Annotations map[string]string
		}
		if property.Type != "olm.package" && property.Type != "olm.csv.metadata" {
			continue
		}
		if err := json.Unmarshal(property.Value, &value); err != nil {
			return bundle{}, fmt.Errorf("property %s: %w", property.Type, err)
		}
		if property.Type == "olm.package" {
			version = value.Version
		} else {
			b.skipRange = value.Annotations["olm.skipRange"]
		}
	}
	var err error
	if b.version, err = semver.Parse(version); err != nil {
		return bundle{}, fmt.Errorf("version %q: %w", version, err)
	}
	return b, nil
}

// channel is a document of a catalog (schema olm.channel).
type channel struct {
	Schema  string  `json:"schema"`
	Package string  `json:"package"`
	Name    string  `json:"name"`
	Entries []entry `json:"entries"`
}

// entry is a version in a channel. It replaces the previous one, and versions in its skipRange can upgrade to it
// directly.
type entry struct {
	Name      string `json:"name"`
	Replaces  string `json:"replaces,omitempty"`
	SkipRange string `json:"skipRange,omitempty"`
}

// channelsOf returns stable-X.Y for each released minor version, newest last, and candidate. In a channel each version
// replaces the previous one. With its skipRange, a cluster with the previous minor version, or any patch release in
// between, upgrades to it in one step.
func channelsOf(all []bundle) ([]channel, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b bundle) int { return a.version.Compare(b.version) })
	byName := map[string][]bundle{}
	var order []string
	for i, b := range all {
		if i > 0 && b.version.EQ(all[i-1].version) {
			return nil, fmt.Errorf("%s and %s are of the same version", all[i-1].name, b.name)
		}
		if len(b.version.Pre) > 0 {
			continue
		}
		name := fmt.Sprintf("stable-%d.%d", b.version.Major, b.version.Minor)
		if byName[name] == nil {
			order = append(order, name)
		}
		byName[name] = append(byName[name], b)
	}
	byName[candidate] = all
	var channels []channel
	for _, name := range append(order, candidate) {
		c := channel{Schema: "olm.channel", Package: packageName, Name: name}
		for i, b := range byName[name] {
			e := entry{Name: b.name, SkipRange: b.skipRange}
			if i > 0 {
				e.Replaces = byName[name][i-1].name
			}
			c.Entries = append(c.Entries, e)
		}
		channels = append(channels, c)
	}
	return channels, nil
}

// catalogPackage is a document of a catalog (schema olm.package).
type catalogPackage struct {
	Schema         string `json:"schema"`
	Name           string `json:"name"`
	DefaultChannel string `json:"defaultChannel"`
	Description    string `json:"description"`
	Icon           icon   `json:"icon"`
}

type icon struct {
	Data      string `json:"base64data"`
	MediaType string `json:"mediatype"`
}

// packageOf describes the package with the text of its newest CSV. The default channel is the newest stable one, or
// candidate if nothing was released.
func packageOf(channels []channel, csv *v1alpha1.ClusterServiceVersion) catalogPackage {
	p := catalogPackage{Schema: "olm.package", Name: packageName, DefaultChannel: candidate,
		Description: csv.Spec.Description}
	if n := len(channels); n > 1 {
		p.DefaultChannel = channels[n-2].Name
	}
	if len(csv.Spec.Icon) > 0 {
		p.Icon = icon{csv.Spec.Icon[0].Data, csv.Spec.Icon[0].MediaType}
	}
	return p
}
