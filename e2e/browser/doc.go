// Package browser controls a headless Chromium for tests of web pages, through chromedriver and the W3C WebDriver protocol
// (https://www.w3.org/TR/webdriver2/). It implements the few commands that tests need.
//
//	b := browser.Start(t)
//	b.Open("http://127.0.0.1:8090/")
//	b.Until(`return document.querySelector("#content").checkVisibility()`)
//	b.Click("#more")
//	if got := b.Text("h1"); got != "Policy reports" { … }
//
// It needs Debian's packages chromium and chromium-driver. It is for tests only: every failure ends the test.
//
// Beside the floors: it imports nothing of Ephor.
package browser
