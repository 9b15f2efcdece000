import type { Import } from './read-imports.js'

/** One row of the layer table. */
export interface Layer {
  readonly name: string
  /** The files that make it up, as paths from the top of the repository. */
  readonly files: RegExp
  /** Layers it may import besides itself. */
  readonly uses: readonly string[]
  /** Packages it may import; without it, every package but Express. */
  readonly packages?: RegExp
  /** Packages it may import the types of, in addition. */
  readonly typePackages?: RegExp
}

/**
 * Judges imports by a layer table.
 *
 * @param layers - the table; the first row whose `files` match owns a file
 * @param files - every source file, as paths from the top of the repository
 * @param imports - every import in them
 * @returns one sentence per fault, none when all is well
 */
export function findLayerFaults(
  layers: readonly Layer[],
  files: readonly string[],
  imports: readonly Import[]
): string[] {
  const layerOf = (file: string): Layer | undefined => layers.find((layer) => layer.files.test(file))
  const isFile = (path: string): boolean => /^(src|servers|test|examples)\//.test(path)

  const strays = files.filter((file) => layerOf(file) === undefined).map((file) => `${file} is in no layer`)
  const faults = imports.flatMap(({ from, to, typeOnly }): string[] => {
    const layer = layerOf(from)
    if (layer === undefined) return []
    if (!isFile(to)) {
      const allowed = (layer.packages ?? /^(?!express(\/|$)|express-serve-static-core$)/).test(to)
      const allowedAsType = typeOnly && layer.typePackages?.test(to) === true
      return allowed || allowedAsType ? [] : [`${from} (${layer.name}) imports the package ${to}`]
    }
    if (!files.includes(to)) return [`${from} imports ${to}, which is not there or outside the layers`]
    const target = layerOf(to)
    if (target === undefined) return []
    return target === layer || layer.uses.includes(target.name)
      ? []
      : [`${from} (${layer.name}) imports ${to} (${target.name})`]
  })
  return [...strays, ...faults, ...findCycles(imports)]
}

/** Names each cycle once, at the import that closes it; types count, because people read cycles too. */
function findCycles(imports: readonly Import[]): string[] {
  const targets = new Map<string, string[]>()
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to])

  const faults: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file)
    if (start !== -1) {
      faults.push(`a cycle: ${[...path.slice(start), file].join(' → ')}`)
      return
    }
    if (done.has(file)) return
    for (const target of targets.get(file) ?? []) visit(target, [...path, file])
    done.add(file)
  }
  for (const file of targets.keys()) visit(file, [])
  return faults
}
