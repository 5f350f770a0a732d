// Package apicall talks HTTP for context entries of kind apiCall: to the Kubernetes API, and to services.
//
//	api, err := apicall.NewKubernetes(restConfig, apicall.Limits{})
//	services, err := apicall.NewServices(apicall.ServiceOptions{Block: apicall.DefaultBlocklist})
//
// Both answer with decoded JSON, read no more than a limit, wait no longer than a limit, and follow no redirects. A
// request to the Kubernetes API is built from a parsed path. A request to a service goes to an address that was checked
// after the name was resolved, and it never carries the process's own API token (S2, S11, S12 in docs/security/threat-model.md).
//
// It does not know policies; package world cuts what they reach.
//
// Floor 4: talks to the network.
package apicall
