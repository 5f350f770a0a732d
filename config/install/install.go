// Package install carries the manifests that Ephor needs besides the CustomResourceDefinitions (config/crds): the
// namespace, service accounts, roles and bindings, Services and the default ConfigMaps, all with Kyverno's names.
//
//	kubectl apply --server-side -f - < install.YAML(443)
//
// It only carries them; applying is up to the caller. There are no Deployments: the development control plane runs the
// controllers as processes, and clusters get theirs from the chart. It imports nothing of Ephor.
package install

import (
	"bytes"
	"embed"
	"io/fs"
	"strconv"
)

//go:embed *.yaml
var files embed.FS

// FS holds the manifests; the order of the names is the order in which they are to be applied.
func FS() fs.FS { return files }

// The names under which the admission controller runs.
const (
	Namespace               = "kyverno"
	AdmissionServiceAccount = "kyverno-admission-controller"
	AdmissionService        = "kyverno-svc"
	ConfigMap               = "kyverno"
	AdmissionCASecret       = AdmissionService + "." + Namespace + ".svc.kyverno-tls-ca"
	AdmissionTLSSecret      = AdmissionService + "." + Namespace + ".svc.kyverno-tls-pair"
	defaultPort             = "port: 443\n"
	separator               = "---\n"
	defaultServicePort      = 443
)

// YAML is all manifests as one multi-document text. The Services that the API server calls listen on servicePort: 443
// in a cluster, and a higher port where the user may not bind that one (control planes on loopback).
func YAML(servicePort int) []byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("install: " + err.Error()) // the embedded directory is always there
	}
	var out bytes.Buffer
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			panic("install: " + err.Error())
		}
		out.WriteString(separator)
		out.Write(content)
	}
	if servicePort == defaultServicePort {
		return out.Bytes()
	}
	return bytes.ReplaceAll(out.Bytes(), []byte(defaultPort), []byte("port: "+strconv.Itoa(servicePort)+"\n"))
}
