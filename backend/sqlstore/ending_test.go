package sqlstore

import "testing"

func TestEnding(t *testing.T) {
	for text, want := range map[string][2]bool{
		"COMMIT": {true, true}, " end;": {true, true}, "ROLLBACK": {true, true}, "rollback work": {true, true},
		"ROLLBACK AND CHAIN": {true, true}, "ROLLBACK TRANSACTION": {true, true}, "Begin;": {true, true}, "BEGIN WORK": {true, true},
		"START TRANSACTION": {true, true}, "-- x\n;/* COMMIT */ COMMIT": {true, true}, "PREPARE TRANSACTION 'x'": {true, true},
		"ROLLBACK TO x": {false, true}, "ROLLBACK TO SAVEPOINT x": {false, true}, "ROLLBACK TRANSACTION point": {false, true},
		"ROLLBACK WORK TO x": {false, true}, "PREPARE x AS SELECT 1": {false, true}, "BEGIN TRANSACTION": {false, true},
		"SELECT 1; COMMIT": {false, true}, "SELECT CASE x WHEN 1 THEN 2 END;": {false, true},
		"SELECT 1": {}, "INSERT INTO commits VALUES ('COMMIT')": {}, "UPDATE endpoint SET x = 1;": {}, "": {}, "/* COMMIT": {},
	} {
		ends, may := Ending(text)
		if ends != want[0] || ends != may && may != want[1] {
			t.Errorf("%q: %v, %v, want %v", text, ends, may, want)
		}
	}
}
