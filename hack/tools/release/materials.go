package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// materials writes a list of the modules in each program (SPDX 2.3), as the program itself records them.
func (r *release) materials() error {
	for _, platform := range r.platforms {
		info, err := buildinfo.ReadFile(r.program(platform))
		if err != nil {
			return fmt.Errorf("%s: %w", r.program(platform), err)
		}
		name := strings.TrimSuffix(strings.TrimSuffix(archiveName(r.version, platform), ".zip"), ".tar.gz")
		var out bytes.Buffer
		if err := json.Write(r.bill(name, info), &out); err != nil {
			return err
		}
		if err := r.put(name+".spdx.json", out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// bill returns the SPDX document for one program.
func (r *release) bill(name string, info *buildinfo.BuildInfo) *spdx.Document {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: r.address() + "/releases/download/v" + r.version + "/" + name + "-" + r.revision,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The Ephor authors"}, {CreatorType: "Tool", Creator: "hack/tools/release"}},
			Created:  r.created.Format(time.RFC3339),
		},
	}
	program := module(0, info.Main.Path, "v"+r.version)
	program.PackageLicenseDeclared = "Apache-2.0"
	doc.Packages = append(doc.Packages, program)
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", "DESCRIBES", program))
	toolchain := module(1, "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	doc.Packages = append(doc.Packages, toolchain)
	doc.Relationships = append(doc.Relationships, relation(program.PackageSPDXIdentifier, "DEPENDS_ON", toolchain))
	for i, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		p := module(i+2, dependency.Path, dependency.Version)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relation(program.PackageSPDXIdentifier, "DEPENDS_ON", p))
	}
	return doc
}

// module returns a Go module as a package of SPDX; its number makes its identifier unique.
func module(number int, path, version string) *spdx.Package {
	return &spdx.Package{
		PackageName: path, PackageVersion: version, PackageSPDXIdentifier: common.ElementID(fmt.Sprintf("Package-go-module-%d", number)),
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + path + "@" + version}},
	}
}

func relation(from common.ElementID, kind string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to.PackageSPDXIdentifier)), Relationship: kind}
}
