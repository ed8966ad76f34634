package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The used part of SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/.

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	DataLicense   string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	CreationInfo  spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID               string          `json:"SPDXID"`
	Name             string          `json:"name"`
	Version          string          `json:"versionInfo,omitempty"`
	Supplier         string          `json:"supplier"`
	Download         string          `json:"downloadLocation"`
	FilesAnalyzed    bool            `json:"filesAnalyzed"`
	LicenseConcluded string          `json:"licenseConcluded"`
	LicenseDeclared  string          `json:"licenseDeclared"`
	Copyright        string          `json:"copyrightText"`
	SourceInfo       string          `json:"sourceInfo,omitempty"`
	Purpose          string          `json:"primaryPackagePurpose,omitempty"`
	Checksums        []spdxChecksum  `json:"checksums,omitempty"`
	References       []spdxReference `json:"externalRefs"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	unknown    = "NOASSERTION"
	documentID = "SPDXRef-DOCUMENT"
	ourLicense = "Apache-2.0"
)

// newSBOM lists the components of the image. The namespace contains the digest of the image, so it is unique for each
// image.
func newSBOM(o options, digest v1.Hash, c components) spdxDocument {
	d := spdxDocument{
		Version:     "SPDX-2.3",
		DataLicense: "CC0-1.0",
		ID:          documentID,
		Name:        o.title + "-" + o.version + "-" + o.arch,
		Namespace:   project + "/spdx/" + o.title + "-" + digest.Hex,
		CreationInfo: spdxCreation{
			Created:  o.created.Format(time.RFC3339),
			Creators: []string{"Organization: " + vendor, "Tool: hack-image-" + o.version},
		},
	}
	image := d.add("", "DESCRIBES", imageComponent(o, digest))
	for _, p := range c.packages {
		d.add(image, "CONTAINS", debianComponent(p, c.distribution))
	}
	modules := map[string]string{}
	d.addProgram(image, c.program, c.standardLibrary(), modules)
	if c.console != nil {
		plugin := d.addProgram(image, c.console.program, c.standardLibrary(), modules)
		for _, p := range c.console.npm {
			d.add(plugin, "CONTAINS", npmComponent(p))
		}
	}
	return d
}

// addProgram adds a program with its modules, and returns its identifier. modules maps the purls of modules that the
// document already has to their identifiers.
func (d *spdxDocument) addProgram(image string, p program, standardLibrary goModule, modules map[string]string) string {
	component := newComponent(path.Join(p.main.path, p.main.subpath), p.main.version, p.main.purl())
	component.Supplier = "Organization: " + vendor
	component.LicenseDeclared = ourLicense
	component.Purpose = "APPLICATION"
	id := d.add(image, "CONTAINS", component)
	for _, m := range append([]goModule{standardLibrary}, p.modules...) {
		if known := modules[m.purl()]; known != "" {
			d.Relationships = append(d.Relationships, spdxRelationship{Element: id, Type: "DEPENDS_ON", Related: known})
			continue
		}
		component := newComponent(m.path, m.version, m.purl())
		if m.sum != "" {
			component.SourceInfo = "go.sum " + m.sum
		}
		modules[m.purl()] = d.add(id, "DEPENDS_ON", component)
	}
	return id
}

// add sets the identifier of a component and adds its relationship to element, or to the document if element is empty.
func (d *spdxDocument) add(element, relation string, p spdxPackage) string {
	if element == "" {
		element = d.ID
	}
	p.ID = fmt.Sprintf("SPDXRef-Package-%d-%s", len(d.Packages), strings.Map(identifierRune, p.Name))
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, spdxRelationship{Element: element, Type: relation, Related: p.ID})
	return p.ID
}

// identifierRune maps characters that SPDX does not allow in an identifier.
func identifierRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}

// newComponent sets no licenses: those of packages are in /licenses of the image, as their authors wrote them.
func newComponent(name, version, purl string) spdxPackage {
	return spdxPackage{
		Name: name, Version: version, Supplier: unknown, Download: unknown,
		LicenseConcluded: unknown, LicenseDeclared: unknown, Copyright: unknown,
		References: []spdxReference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: purl}},
	}
}

func imageComponent(o options, digest v1.Hash) spdxPackage {
	p := newComponent(o.title, o.version, imagePurl(o.title, o.arch, digest))
	p.Supplier = "Organization: " + vendor
	p.Purpose = "CONTAINER"
	p.Checksums = []spdxChecksum{{Algorithm: "SHA256", Value: digest.Hex}}
	return p
}

func debianComponent(p debianPackage, distribution string) spdxPackage {
	component := newComponent(p.Name, p.Version, p.purl(distribution))
	component.Supplier = "Organization: Debian"
	component.SourceInfo = "built from the source package " + p.Source + " " + p.SourceVersion
	component.Checksums = []spdxChecksum{{Algorithm: "SHA256", Value: p.SHA256}}
	return component
}

func npmComponent(p npmPackage) spdxPackage {
	component := newComponent(p.Name, p.Version, p.purl())
	component.LicenseDeclared = p.License
	component.SourceInfo = "package-lock.json " + p.Integrity
	return component
}

// standardLibrary returns Go's standard library with the name that scanners use.
func (c components) standardLibrary() goModule { return goModule{path: "stdlib", version: c.goVersion} }

func writeJSON(name string, value any) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetIndent("", "  ")
	// A package URL may contain "&", which must remain readable.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.WriteFile(name, content.Bytes(), 0o644)
}
