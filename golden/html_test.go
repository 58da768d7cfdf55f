package golden

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/tools/testkit/html5"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// mostPage is the maximum size in bytes of a walk's page, so that a chat or a ticket shows it at once.
const mostPage = 150 << 10

// TestPagesOfWalks: the page of every recorded walk is HTML that loads nothing, is small, and has the answer before the
// table, and the table before the rest.
func TestPagesOfWalks(t *testing.T) {
	largest, most := "", 0
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		page := []byte(walked(t, r, render.Options{Format: render.HTML}))
		if len(page) > most {
			largest, most = path, len(page)
		}
		if err := html5.Check(page); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		v, text := &r.Verdict, html5.Text(page)
		want := []string{" " + string(v.Outcome) + ": "}
		if v.Blame != nil {
			want = append(want, string(v.Blame.Hop), string(v.Blame.Signal), v.Owner)
		}
		if v.Proof != nil {
			want = append(want, v.Proof.Text)
		}
		if len(v.Recovery) > 0 {
			first, _, _ := strings.Cut(v.Recovery[0], "`")
			want = append(want, "Next", first)
		}
		want = append(want, v.RepairProof, render.Counts(r.Hops))
		for _, h := range r.Hops {
			want = append(want, h.Status.Symbol()+" "+h.Status.Words()+" "+string(h.ID))
		}
		rest := text
		for _, w := range append(want, "Measurements of run") {
			w = strings.Join(strings.Fields(w), " ")
			_, after, found := strings.Cut(rest, w)
			if !found {
				t.Errorf("%s: %q is missing, or not in its place:\n%.1500s", path, w, text)
				break
			}
			rest = after
		}
	}
	t.Logf("the largest page is that of %s, %d bytes", largest, most)
	if most > mostPage {
		t.Errorf("the page of %s has %d bytes, want at most %d", largest, most, mostPage)
	}
}

// axe runs all rules of axe-core, and puts the result into the page's text. All folds are open, since axe-core skips
// hidden elements. The browser has no window of less than 500 pixels, so the page itself gets a phone's width.
const axe = `<script>
const width = innerWidth < 640 ? 360 : innerWidth;
document.documentElement.style.width = width + "px";
document.querySelectorAll("details").forEach((d) => { d.open = true });
const wide = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > width);
axe.run().then((r) => {
  const wrong = r.violations.concat(r.incomplete).flatMap((v) => v.nodes.map((n) => v.id + " " + n.target + ": " + n.failureSummary));
  document.body.textContent = "<<" + r.passes.length + " rules hold, width " + width +
    (wide.length > 0 ? ", not wide enough for " + wide[0].outerHTML : "") +
    (matchMedia("(prefers-color-scheme: dark)").matches ? ", dark" : ", light") + wrong.map((w) => "\n" + w).join("") + ">>";
}, (e) => { document.body.textContent = "<<" + e + ">>" });
</script>
`

// TestPagesInABrowser: axe-core finds nothing in pages of a pass, a failure with a proof, several faults, an
// interrupted walk and one that decides nothing, in the widths of a phone and a desktop, light and dark. Nothing is
// wider than the screen. A script that gets into a page does not run.
func TestPagesInABrowser(t *testing.T) {
	tier.NeedsHost(t)
	chromium, err := exec.LookPath("chromium")
	script := os.Getenv("GPUAASCTL_AXE")
	if script == "" || err != nil {
		t.Skip("skipped: needs chromium, and GPUAASCTL_AXE to name axe-core's axe.min.js (make test-html)")
	}
	source, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	show := func(t *testing.T, page, size, scheme string) string {
		t.Helper()
		file := filepath.Join(dir, "page.html")
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
			"--user-data-dir="+filepath.Join(dir, "browser"), "--window-size="+size, "--virtual-time-budget=60000",
			"--blink-settings=preferredColorScheme="+scheme, "file://"+file)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for name, page := range pagesToRead(t) {
		for _, look := range []struct{ size, scheme, want string }{
			{"500,800", "1", "360, light"}, {"500,800", "0", "360, dark"},
			{"1280,800", "1", "1280, light"}, {"1280,800", "0", "1280, dark"},
		} {
			t.Run(name+" "+look.want, func(t *testing.T) {
				dom := show(t, policy.ReplaceAllString(page, "")+"<script>"+string(source)+"</script>"+axe, look.size, look.scheme)
				_, said, _ := strings.Cut(dom, "&lt;&lt;")
				said, _, _ = strings.Cut(said, "&gt;&gt;")
				want := regexp.MustCompile(`^[0-9]{2,} rules hold, width ` + look.want + `$`)
				if !want.MatchString(said) {
					t.Errorf("axe reports %q", said)
				}
			})
		}
		ran := `<script>document.body.textContent = "it ran"</script><p style="color: red" onclick="x()">`
		dom := show(t, strings.Replace(page, "<main>", "<main>"+ran, 1), "1280,800", "1")
		if strings.Contains(dom, "<body>it ran") || !strings.Contains(dom, "<table") {
			t.Errorf("%s: a script runs in the page", name)
		}
	}
}

// policy is the element that would keep axe-core from running in a page.
var policy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)

// pagesToRead returns pages of every kind of verdict.
func pagesToRead(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, name := range []string{"healthy", "terminal-egress-blocked", "three-faults"} {
		pages[name] = walked(t, recorded(t, "reports/"+name+".json"), render.Options{Format: render.HTML})
	}
	partial := recorded(t, "reports/stale-ca-bundle.json")
	partial.Run.EndedBy = diag.EndedInterrupted
	pages["partial"] = walked(t, partial, render.Options{Format: render.HTML})
	undecided := recorded(t, "reports/healthy.json")
	undecided.Hops[3].Finding = diag.Finding{Status: diag.StatusInconclusive, Because: "no key to offer"}
	undecided.Hops[4].Finding = diag.Finding{Status: diag.StatusWarn, Text: "the disk is nearly full"}
	undecided.Verdict = diag.Verdict{Outcome: diag.OutcomeInconclusive, Because: "no key to offer", Owner: "operator"}
	pages["inconclusive"] = walked(t, undecided, render.Options{Format: render.HTML})
	for name, page := range pages {
		if !policy.MatchString(page) {
			t.Fatal(fmt.Errorf("%s has no policy", name))
		}
	}
	return pages
}
