// Package webhooktest makes random policies for tests of webhook configurations.
//
//	policies := webhooktest.Policies(data) // objects of all kinds, with valid and invalid fields
//
// The API server may store such policies while Ephor does not review them. Only tests import the package.
package webhooktest
