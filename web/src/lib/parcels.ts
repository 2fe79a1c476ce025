// The rows of SHOW PARCELS, by queries whose state lies together. Pure.

export interface Parcel {
  number: number;
  bucket: number;
  rate: number;
  share: number; // of the tuples of its queries
}

export interface Group {
  name: string; // of all its queries
  query: string; // one of them
  parcels: Parcel[]; // the heaviest, and those that were moved
  total: number;
  hindrance: string | null; // why they cannot move
}

export function groupsOf(rows: unknown[][]): Group[] {
  const groups = new Map<string, Group>();
  for (const [queries, parcel, total, bucket, rate, share, moves] of rows) {
    const name = String(queries);
    const group: Group = groups.get(name) ?? {
      name,
      query: name.split(", ")[0] ?? name,
      parcels: [],
      total: Number(total),
      hindrance: moves === "yes" ? null : String(moves).replace(/^no: /, ""),
    };
    groups.set(name, group);
    if (typeof parcel === "number" && typeof bucket === "number")
      group.parcels.push({ number: parcel, bucket, rate: Number(rate), share: Number.parseFloat(String(share)) / 100 || 0 });
  }
  return [...groups.values()];
}
