import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import ts from 'typescript'

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
 * Lists the TypeScript files under the given folders, without builds and packages; a folder that does not exist has none.
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
  const found: Import[] = []
  const add = (specifier: ts.Node | undefined, typeOnly: boolean): void => {
    if (specifier !== undefined && ts.isStringLiteralLike(specifier)) {
      found.push({ from: file, to: resolveSpecifier(file, specifier.text), typeOnly })
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
  return found
}

function resolveSpecifier(file: string, specifier: string): string {
  return specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts') : specifier
}
