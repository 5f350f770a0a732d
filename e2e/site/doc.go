// Package site opens the pages of the guide, as `make site` writes them, in a real Chromium: from files, without a server.
//
//	EPHOR_UI=chromium go test ./e2e/site/
//
// Beside the program; it imports the browser and the path of the repository.
package site
