// The rows of SHOW PARCELS, by queries whose state lies together. Pure.

export interface Parcel {
  number: number;
  bucket: number;
  rate: number;
  share: number; // of the tuples of its queries
  split: number[]; // the buckets that have it, if it is in several
}

export interface Group {
  name: string; // of all its queries
  stage: number; // keys of a query may be divided more than once: before a join, and before groups by another column
  query: string; // one of them
  parcels: Parcel[]; // the heaviest, and those that were moved
  total: number;
  hindrance: string | null; // why they cannot move
}

export function groupsOf(rows: unknown[][]): Group[] {
  const groups: Group[] = [];
  for (const [queries, parcel, total, bucket, rate, share, moves, split] of rows) {
    const name = String(queries);
    // a group lists its parcels once, the heaviest first
    const before = groups.findLast((group) => group.name === name);
    const last = before?.parcels.at(-1);
    const goesOn = before && before === groups.at(-1) && last && !before.parcels.some((known) => known.number === parcel) && Number(rate) <= last.rate;
    const group: Group = goesOn ? before : {
      name,
      stage: (before?.stage ?? 0) + 1,
      query: name.split(", ")[0] ?? name,
      parcels: [],
      total: Number(total),
      hindrance: moves === "yes" ? null : String(moves).replace(/^no: /, ""),
    };
    if (!goesOn) groups.push(group);
    if (typeof parcel === "number" && typeof bucket === "number")
      group.parcels.push({
        number: parcel,
        bucket,
        rate: Number(rate),
        share: Number.parseFloat(String(share)) / 100 || 0,
        split: split ? String(split).split(", ").map(Number) : [],
      });
  }
  return groups;
}
