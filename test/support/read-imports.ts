import ts from 'typescript'
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** One import, re-export, `import()`, `import('…').Type` or `require()` of a file. */
export interface Import {
  /** Path of the importing file from the top of the repository, with slashes. */
  readonly from: string
  /** Path of the imported source file (`src/errors.ts`), or the specifier as written when it is a package. */
  readonly to: string
  /** Whether nothing of it is left at run time. */
  readonly typeOnly: boolean
}

/**
 * Lists the TypeScript files under the given folders, without builds and packages; a folder that does not exist has
 * none.
 *
 * @param root - absolute path of the repository
 * @param folders - folders under it, for example `src`
 * @returns paths from `root`, with slashes, sorted
 */
export function listSourceFiles(root: string, folders: readonly string[]): string[] {
  return folders
    .flatMap((folder) => {
      try {
        return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) =>
          posix.join(folder, file.replaceAll('\\', '/'))
        )
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
        throw error
      }
    })
    .filter((file) => file.endsWith('.ts') && !/\/(?:dist|node_modules)\//.test(file))
    .sort()
}

/**
 * Reads the imports of one file.
 *
 * @param root - absolute path of the repository
 * @param file - path from `root`, with slashes
 */
export function readImports(root: string, file: string): Import[] {
  return parseImports(file, readFileSync(join(root, file), 'utf8'))
}

/**
 * Finds the imports in a source text.
 *
 * @param file - path of the text from the top of the repository; relative specifiers are resolved against it
 * @param text - TypeScript
 */
export function parseImports(file: string, text: string): Import[] {
  const imports: Import[] = []
  const add = (specifier: ts.Node | undefined, typeOnly: boolean): void => {
    if (specifier !== undefined && ts.isStringLiteralLike(specifier)) {
      imports.push({ from: file, to: resolveSpecifier(file, specifier.text), typeOnly })
    }
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const names = node.importClause?.namedBindings
      const onlyTypeNames =
        names !== undefined &&
        ts.isNamedImports(names) &&
        names.elements.length > 0 &&
        names.elements.every((element) => element.isTypeOnly) &&
        node.importClause?.name === undefined
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword || onlyTypeNames)
    } else if (ts.isExportDeclaration(node)) {
      const names = node.exportClause
      const onlyTypeNames =
        names !== undefined &&
        ts.isNamedExports(names) &&
        names.elements.length > 0 &&
        names.elements.every((element) => element.isTypeOnly)
      add(node.moduleSpecifier, node.isTypeOnly || onlyTypeNames)
    } else if (ts.isImportTypeNode(node)) {
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, true)
    } else if (ts.isImportEqualsDeclaration(node) && ts.isExternalModuleReference(node.moduleReference)) {
      add(node.moduleReference.expression, node.isTypeOnly)
    } else if (
      ts.isCallExpression(node) &&
      (node.expression.kind === ts.SyntaxKind.ImportKeyword ||
        (ts.isIdentifier(node.expression) && node.expression.text === 'require'))
    ) {
      add(node.arguments[0], false)
    } else if (ts.isModuleDeclaration(node) && ts.isStringLiteral(node.name)) {
      // `declare module 'express' {…}` leans on the package as much as an import of its types does.
      add(node.name, true)
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, false))
  return imports
}

function resolveSpecifier(file: string, specifier: string): string {
  return specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts') : specifier
}

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
