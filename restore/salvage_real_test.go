package restore_test

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/restore"
)

// damageInside damages a block of which every byte is payload of the file at one of the paths, and returns its path.
func damageInside(t *testing.T, b *catalog.Backup, paths ...string) string {
	t.Helper()
	index, err := b.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for c := range index.Chunks() {
		if !slices.Contains(paths, c.Path) {
			continue
		}
		for block := range index.Blocks(c.Data, c.Data+c.Size) {
			if block.Raw >= c.Data && block.Raw+block.RawSize <= c.Data+c.Size {
				flip(t, volumePath(b, block.Volume), block.Stored+block.StoredSize/2)
				return c.Path
			}
		}
	}
	t.Fatalf("no block lies inside of %q", paths)
	return ""
}

// salvagedServer salvages a backup of a real server of which four tables are hit, starts a server on it, and does what the
// next steps say.
func salvagedServer(t *testing.T, source *scratch.Server) {
	want := keepSums(t, source)
	stream := backupWhile(t, source, nil)
	backup := makeBackup(t, t.TempDir(), stream, packing{codec: "lz4", blockSize: 16 << 10, volumeSize: 8 << 20})
	lost := []string{
		damageInside(t, backup, "keep/inno.ibd", "keep/inno.new"),
		damageInside(t, backup, "keep/part#P#p1.ibd", "keep/part#P#p1.new"),
		damageInside(t, backup, "keep/isam.MYI"),
		damageInside(t, backup, "keep/aria.MAD"),
	}
	slices.Sort(lost)
	target := filepath.Join(t.TempDir(), "salvaged")
	result, err := restore.Run(t.Context(), restore.Options{Target: target, Backup: backup, Owner: ourselves(), Salvage: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range result.Lost {
		got = append(got, l.Path)
	}
	if !slices.Equal(got, lost) || !result.Prepared || result.Aside != "" {
		t.Fatalf("got %+v, want it prepared without %q", result, lost)
	}
	for _, table := range []string{"keep.inno", "keep.part", "keep.isam", "keep.aria"} {
		if !strings.Contains(strings.Join(result.Next, "\n"), table) {
			t.Errorf("next steps: got %q, want them to name %s", result.Next, table)
		}
	}
	if text, err := os.ReadFile(result.LostList); err != nil || !strings.Contains(string(text), "\tkeep.part\t") {
		t.Errorf("list: got %s, %v", text, err)
	}
	restored := startOn(t, target)
	for name := range engines() {
		sum, err := tableSum(t, restored, name)
		switch name {
		case "inno", "part":
			if err == nil || !strings.Contains(err.Error(), "1030") || !strings.Contains(err.Error(), "Tablespace is missing") {
				t.Errorf("keep.%s: got %v, want error 1030", name, err)
			}
		case "isam", "aria":
			if err == nil && sum == want[name] {
				t.Errorf("keep.%s: got its checksum, want an error", name)
			}
		default:
			if err != nil || sum != want[name] {
				t.Errorf("keep.%s: got checksum %d, %v, want %d", name, sum, err, want[name])
			}
		}
	}
	followSteps(t, restored, want)
}

// tableSum returns the checksum of a table, or why there is none.
func tableSum(t *testing.T, s *scratch.Server, name string) (uint64, error) {
	t.Helper()
	var rows int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM (SELECT a FROM keep."+name+") x").Scan(&rows); err != nil {
		return 0, err
	}
	var table string
	var sum sql.Null[uint64]
	err := s.DB().QueryRowContext(t.Context(), "CHECKSUM TABLE keep."+name+" EXTENDED").Scan(&table, &sum)
	return sum.V, err
}

// followSteps does what the next steps of salvagedServer say.
func followSteps(t *testing.T, s *scratch.Server, want map[string]uint64) {
	t.Helper()
	run(t, s, "REPAIR TABLE keep.isam USE_FRM")
	if sum, err := tableSum(t, s, "isam"); err != nil || sum != want["isam"] {
		t.Errorf("repaired keep.isam: got checksum %d, %v, want %d", sum, err, want["isam"])
	}
	run(t, s, "CREATE TABLE keep.saved AS SELECT * FROM keep.part PARTITION (p0)")
	var rows int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM keep.saved").Scan(&rows); err != nil || rows < 1000 {
		t.Errorf("another partition: got %d rows, %v", rows, err)
	}
	for _, name := range []string{"inno", "part", "aria"} {
		run(t, s, fmt.Sprintf("DROP TABLE keep.%s", name))
		run(t, s, fmt.Sprintf("CREATE TABLE keep.%s (id INT NOT NULL PRIMARY KEY, a VARCHAR(9)); INSERT INTO keep.%s VALUES (1, 'x'); DROP TABLE keep.%s", name, name, name))
	}
}

// TestSalvageWords names what is lost, by its meaning to the operator, through every kind of file.
func TestSalvageWords(t *testing.T) {
	names := map[string]string{
		"mysql/global_priv.MAD": "mysql.global_priv", "shop/a.ibd": "shop.a", "shop/b#P#p0.ibd": "shop.b", "shop/c.MAD": "shop.c",
		"shop/d.frm": "shop.d", "shop/e.MYI": "shop.e", "shop/FTS_000000000000001f_CONFIG.ibd": "shop/FTS_000000000000001f_CONFIG.ibd",
		"shop/db.opt": "shop/db.opt", "xtrabackup_info": "xtrabackup_info", "shop/f.new": "shop.f", "shop/g.par": "shop.g",
	}
	b := newStream(t)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b.file(name, string(noise(1, 9000)))
	}
	for i := range 30 {
		b.file(fmt.Sprintf("zmany/t%02d.ibd", i), string(noise(uint64(i), 500)))
	}
	end := int64(b.buf.Len())
	b.file("keep/t.ibd", string(noise(2, 9000))).file("ibdata1", string(noise(3, 100)))
	stream := b.file("xtrabackup_checkpoints", checkpoints).bytes()
	backup := makeBackup(t, memoryDir(t), stream, packing{blockSize: 4 << 10, codec: "none"})
	for _, block := range allBlocks(t, backup) {
		if block.Raw+block.RawSize <= end {
			flip(t, volumePath(backup, 1), block.Stored+5)
		}
	}
	result, err := restore.Run(t.Context(), restore.Options{
		Target: filepath.Join(memoryDir(t), "t"), Backup: backup, Owner: ourselves(), Salvage: true, Tool: fakeTool(t, "10.11.19", preparedWell),
	})
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Join(result.Next, "\n")
	for path, name := range names {
		if !strings.Contains(steps, " "+name) {
			t.Errorf("%q: steps don't name %s:\n%s", path, name, steps)
		}
	}
	for _, word := range []string{"more, see ", "mbwrap-lost.txt", "1030", "PARTITION (p0)", "USE_FRM", "ADD FULLTEXT KEY", "mariadb-upgrade", "foreign_key_checks=0", ".frm"} {
		if !strings.Contains(steps, word) {
			t.Errorf("steps: got no %q in\n%s", word, steps)
		}
	}
}
