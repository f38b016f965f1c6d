# What `cmake --install` puts where. Included last by the top-level CMakeLists.txt.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(TARGETS tutti EXPORT tuttiTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
        DESTINATION ${package_dir})

# Paths relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH tutti_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(NOT BUILD_SHARED_LIBS) # nothing can be linked without these, so that they come without --static as well
  list(JOIN TUTTI_STATIC_FLAGS " " flags)
  set(tutti_pc_libs " ${flags}")
  set(tutti_pc_libs_private "Libs.private: ${flags}\n")
endif()
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The perf binaries are not for everybody's PATH; the tutti command is.
function(tutti_install_executables directory destination)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      file(RELATIVE_PATH to_lib /${destination} /${CMAKE_INSTALL_LIBDIR})
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
      install(TARGETS ${target} RUNTIME DESTINATION ${destination})
    endif()
  endforeach()
endfunction()
if(TUTTI_BUILD_PERF)
  tutti_install_executables(perf ${CMAKE_INSTALL_LIBEXECDIR}/tutti)
endif()
if(TUTTI_BUILD_TOOLS)
  tutti_install_executables(tools ${CMAKE_INSTALL_BINDIR})
endif()
