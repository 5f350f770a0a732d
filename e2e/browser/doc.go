// Package browser drives a real Chromium without a window, for tests of web pages, through chromedriver and the W3C WebDriver
// protocol (https://www.w3.org/TR/webdriver2/), of which it speaks the little that tests need.
//
//	b := browser.Start(t)
//	b.Open("http://127.0.0.1:8090/")
//	b.Until(`return document.querySelector("#content").checkVisibility()`)
//	b.Click("#more")
//	if got := b.Text("h1"); got != "Policy reports" { … }
//
// Debian's packages chromium and chromium-driver are all it needs. It is no library for anything but tests: every failure
// ends the test.
//
// Beside the floors: it imports nothing of Ephor.
package browser
