// Package site opens the pages of the guide that `make site` writes in a real Chromium, from files, without a server.
//
//	EPHOR_UI=chromium go test ./e2e/site/
//
// It imports the browser and the path of the repository.
package site
